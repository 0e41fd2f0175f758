// Rows of keys and values as the kernels want them: in the type of the arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/dense/layout.hpp"
#include "engine/kernels/table.hpp"

namespace heed {

template <class Real>
const KernelTable<Real>& kernels_of(const Kernels& kernels);
template <>
inline const KernelTable<float>& kernels_of(const Kernels& kernels) {
  return kernels.f32;
}
template <>
inline const KernelTable<double>& kernels_of(const Kernels& kernels) {
  return kernels.f64;
}

template <class Real>
inline constexpr ElementType kTypeOf = ElementType::kF32;
template <>
inline constexpr ElementType kTypeOf<double> = ElementType::kF64;

/// The matrix without its rows before k.
template <class Real>
MatrixView<Real> from_row(const MatrixView<Real>& matrix, std::int64_t k) {
  return {matrix.data + k * matrix.row_stride, matrix.row_stride, matrix.column_stride};
}

/// Rows [begin, end) of head h of a tensor, where they lie or, of another type, widened in
/// `buffer`, [end - begin][features].
template <class Real>
MatrixView<Real> widened(const KernelTable<Real>& kernels, const void* data, const Layout& layout,
                         std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end,
                         std::int64_t features, Real* buffer) {
  const std::byte* row = row_at(data, layout, b, h, begin);
  if (layout.type == kTypeOf<Real>)
    return {reinterpret_cast<const Real*>(row), layout.strides.row, layout.strides.feature};
  for (std::int64_t k = begin; k < end; ++k) {
    kernels.read(layout.type, row, layout.strides.feature, static_cast<std::size_t>(features),
                 buffer + (k - begin) * features);
    row += layout.strides.row * layout.bytes;
  }
  return {buffer, features, 1};
}

}  // namespace heed
