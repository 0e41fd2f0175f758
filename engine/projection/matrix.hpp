// Weight matrices as callers give them, and the order in which products read them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/table.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {

/// A product takes this many features in at a time, so that a panel's part of x and the weights of
/// one block of features out stay in the L1 cache; of pairs twice as many, which take as much.
inline constexpr std::int64_t kTileIn = 128;
inline constexpr std::int64_t kMostTileIn = 2 * kTileIn;

/// How products want features in: ProductKernels::depth of them at a time, each in so many parts.
struct Packing {
  std::uint32_t depth = 1;
  std::uint32_t parts = 1;

  template <class Real>
  static Packing of(const ProductKernels<Real>& products) {
    return {products.depth, products.parts};
  }
  bool operator==(const Packing& other) const {
    return depth == other.depth && parts == other.parts;
  }
  /// Numbers are packed as they are.
  bool is_plain() const { return depth == 1; }
  /// Features in of a tile.
  std::int64_t tile_in() const { return is_plain() || parts > 1 ? kTileIn : kMostTileIn; }
  /// Reals of `depth` features in of one feature out.
  std::int64_t elements() const {
    return is_plain() ? 1 : std::int64_t{depth} / 2 * std::int64_t{parts};
  }
  /// Reals of so many features in of one feature out.
  std::int64_t lines(std::int64_t ins) const {
    return ceil_div(ins, std::int64_t{depth}) * elements();
  }
};

/// Features in [k, k + ins) by features out [x, x + outs) of a matrix: the unit of packing. Packed
/// as the kernels' pack_values does it, [out block][in][value_block].
struct TileOf {
  std::int64_t k, ins;
  std::int64_t x, outs;
};

/// Copies a tile to `wide` in the type of the arithmetic, as [ins][outs] or [outs][ins], as it lies
/// in the matrix.
template <class Real>
MatrixView<Real> widen_tile(const KernelTable<Real>& kernels, const Matrix& matrix,
                            const void* data, const TileOf& tile, Real* wide);

/// Packs one tile for these products. `wide`, as in widen_tile, is used if the matrix has another
/// type, is several matrices or is rounded: to one bfloat16, where finite numbers stay finite.
template <class Real>
void pack_tile(const KernelTable<Real>& kernels, const ProductKernels<Real>& products,
               const Matrix& matrix, const void* data, const TileOf& tile, Real* wide,
               Real* packed);

/// A packed tile of so many features in.
template <class Real>
ValueView<Real> packed_view(const Real* packed, const Packing& packing, std::int64_t ins) {
  constexpr auto kBlock = static_cast<std::ptrdiff_t>(PanelGeometry::value_block);
  return {packed, kBlock * packing.elements(), packing.elements(), packing.lines(ins) * kBlock};
}

/// One block of features out of a tile that is packed in pairs, to [ins][value_block].
template <class Real>
void widen_block(const Real* packed, std::uint32_t depth, std::int64_t ins, Real* to);

}  // namespace heed
