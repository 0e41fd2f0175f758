#include "engine/projection/matrix.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/rows.hpp"

namespace heed {

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

namespace {

/// The largest number of bfloat16. What is finite and larger would be rounded to infinity.
constexpr float kLargest = 0x1.fep127F;

template <class Real>
void keep_finite(Real* numbers, std::int64_t count) {
  constexpr auto kMost = static_cast<Real>(kLargest);
  for (std::int64_t i = 0; i < count; ++i) {
    const Real size = std::fabs(numbers[i]);
    const bool lost = size > kMost && size < std::numeric_limits<Real>::infinity();
    numbers[i] = lost ? std::copysign(kMost, numbers[i]) : numbers[i];
  }
}

}  // namespace

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

template <class Real>
void widen_block(const Real* packed, std::uint32_t depth, std::int64_t ins, Real* to) {
  constexpr auto kBlock = static_cast<std::int64_t>(PanelGeometry::value_block);
  const auto* const numbers = reinterpret_cast<const std::byte*>(packed);
  for (std::int64_t k = 0; k < ins; ++k)
    for (std::int64_t x = 0; x < kBlock; ++x) {
      const std::int64_t at = (k / depth * kBlock + x) * depth + k % depth;
      std::uint16_t half = 0;
      std::memcpy(&half, numbers + at * 2, sizeof half);
      const std::uint32_t bits = std::uint32_t{half} << 16;
      float number = 0;
      std::memcpy(&number, &bits, sizeof number);
      to[k * kBlock + x] = static_cast<Real>(number);
    }
}

template MatrixView<float> widen_tile(const KernelTable<float>&, const Matrix&, const void*,
                                      const TileOf&, float*);
template MatrixView<double> widen_tile(const KernelTable<double>&, const Matrix&, const void*,
                                       const TileOf&, double*);
template void pack_tile(const KernelTable<float>&, const ProductKernels<float>&, const Matrix&,
                        const void*, const TileOf&, float*, float*);
template void pack_tile(const KernelTable<double>&, const ProductKernels<double>&, const Matrix&,
                        const void*, const TileOf&, double*, double*);
template void widen_block(const float*, std::uint32_t, std::int64_t, float*);
template void widen_block(const double*, std::uint32_t, std::int64_t, double*);

}  // namespace heed
