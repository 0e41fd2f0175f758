// Tiles of matrices: the unit of packing.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "engine/kernels/table.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {

/// Features out that are packed together.
inline constexpr auto kOutBlock = static_cast<std::int64_t>(PanelGeometry::value_block);

/// A product takes this many features in at a time, so that a panel's share of x and the weights of
/// one block of features out stay in the L1 cache; of pairs twice as many, which take as much.
inline constexpr std::int64_t kTileIn = 128;
inline constexpr std::int64_t kMostTileIn = 2 * kTileIn;

/// How products want features in: ProductKernels::depth of them at a time, each in so many
/// components.
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
  /// Values are packed as they are.
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
                            const void* data, const TileOf& tile, Real* wide) {
  const Layout& layout = matrix.layout;
  const bool by_columns = magnitude(layout.strides.row) < magnitude(layout.strides.feature);
  const std::ptrdiff_t row_step = by_columns ? 1 : tile.outs;
  const std::ptrdiff_t column_step = by_columns ? tile.ins : 1;
  for (std::int64_t done = 0; done < tile.ins;) {
    const std::int64_t row = (tile.k + done) % matrix.in_each;
    const std::int64_t rows = std::min(matrix.in_each - row, tile.ins - done);
    const std::byte* const from = row_at(data, layout, (tile.k + done) / matrix.in_each, 0, row) +
                                  tile.x * layout.strides.feature * layout.bytes;
    Real* const to = wide + done * row_step;
    for (std::int64_t x = 0; by_columns && x < tile.outs; ++x)
      kernels.numbers.read(layout.type, from + x * layout.strides.feature * layout.bytes,
                           layout.strides.row, static_cast<std::size_t>(rows),
                           to + x * column_step);
    for (std::int64_t r = 0; !by_columns && r < rows; ++r)
      kernels.numbers.read(layout.type, from + r * layout.strides.row * layout.bytes,
                           layout.strides.feature, static_cast<std::size_t>(tile.outs),
                           to + r * row_step);
    done += rows;
  }
  return {wide, row_step, column_step};
}

/// The largest number of bfloat16. Larger ones would be rounded to infinity.
inline constexpr float kLargestBf16 = 0x1.fep127F;

template <class Real>
void keep_finite(Real* values, std::int64_t count) {
  constexpr auto kMost = static_cast<Real>(kLargestBf16);
  for (std::int64_t i = 0; i < count; ++i) {
    const Real size = std::fabs(values[i]);
    const bool lost = size > kMost && size < std::numeric_limits<Real>::infinity();
    values[i] = lost ? std::copysign(kMost, values[i]) : values[i];
  }
}

/// Packs one tile for these products. `wide`, as in widen_tile, is used if the matrix has another
/// type, is several matrices or is rounded: to one bfloat16, where finite values stay finite.
template <class Real>
void pack_tile(const KernelTable<Real>& kernels, const ProductKernels<Real>& products,
               const Matrix& matrix, const void* data, const TileOf& tile, Real* wide,
               Real* packed) {
  const Layout& layout = matrix.layout;
  const bool rounds =
      products.depth != 1 && products.parts == 1 && layout.type != ElementType::kBf16;
  MatrixView<Real> view{};
  if (layout.type != kTypeOf<Real> || matrix.in_each != matrix.in || rounds) {
    view = widen_tile(kernels, matrix, data, tile, wide);
    if (rounds) keep_finite(wide, tile.ins * tile.outs);
  } else {
    view = {reinterpret_cast<const Real*>(row_at(data, layout, 0, 0, tile.k)) +
                tile.x * layout.strides.feature,
            layout.strides.row, layout.strides.feature};
  }
  products.pack_values(view, static_cast<std::size_t>(tile.ins),
                       static_cast<std::size_t>(tile.outs), packed);
}

/// One block of features out of a tile that is packed in pairs, to [ins][value_block].
template <class Real>
void widen_block(const Real* packed, std::uint32_t depth, std::int64_t ins, Real* to) {
  const auto* const halves = reinterpret_cast<const std::byte*>(packed);
  for (std::int64_t k = 0; k < ins; ++k)
    for (std::int64_t x = 0; x < kOutBlock; ++x) {
      const std::int64_t at = (k / depth * kOutBlock + x) * depth + k % depth;
      std::uint16_t half = 0;
      std::memcpy(&half, halves + at * 2, sizeof half);
      const std::uint32_t bits = std::uint32_t{half} << 16;
      float number = 0;
      std::memcpy(&number, &bits, sizeof number);
      to[k * kOutBlock + x] = static_cast<Real>(number);
    }
}

}  // namespace heed
