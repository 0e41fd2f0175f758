// Turns rows of tensors into rows of the type of the arithmetic, as kernels want them, and back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/kernels/table.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {

/// The rows from k on.
template <class Real>
RowsView<Real> from_row(const RowsView<Real>& rows, std::int64_t k) {
  return {rows.data + k * rows.row_stride, rows.row_stride};
}

/// Whether each row of a tensor is values of this type, side by side.
inline bool has_rows_of(ElementType type, const Layout& layout) {
  return layout.type == type && layout.strides.feature == 1;
}

/// Rows [begin, end) of a tensor, of which row k lies at row(k), where they lie. Rows that are no
/// Reals, or `apart` from each other, are read by read(k, to) into `buffer`, [end -
/// begin][features].
template <class Real, class Row, class Read>
RowsView<Real> widened(const Layout& layout, bool apart, std::int64_t begin, std::int64_t end,
                       std::int64_t features, Real* buffer, Row&& row, Read&& read) {
  if (has_rows_of(kTypeOf<Real>, layout) && !apart)
    return {reinterpret_cast<const Real*>(row(begin)), layout.strides.row};
  for (std::int64_t k = begin; k < end; ++k) read(k, buffer + (k - begin) * features);
  return {buffer, features};
}

/// Rows of bfloat16 so far apart, in values, still use a quarter of the sets of a cache.
inline constexpr std::int64_t kFarthestRow = 512;

/// Rows [begin, end) of a tensor as rows of pairs of bfloat16, each in the place of a Real: where
/// they lie if pairs of features do, side by side, at multiples of their size and in whole groups
/// of `depth` features. Tiles are whole cache lines of many rows, so that lines must begin where
/// lines of the cache do, and not many of them fall on one set of it. Else read(k, to) copies row
/// k, and the last group is filled up with 0.
template <class Real, class Row, class Read>
RowsView<Real> paired(const Layout& layout, bool apart, std::int64_t begin, std::int64_t end,
                      std::int64_t features, std::int64_t depth, Real* buffer, Row&& row,
                      Read&& read) {
  const Strides& strides = layout.strides;
  const bool in_place =
      layout.type == ElementType::kBf16 && !apart && strides.feature == 1 &&
      features % depth == 0 && strides.row % depth == 0 &&
      (depth == 2 || magnitude(strides.row) <= kFarthestRow) &&
      reinterpret_cast<std::uintptr_t>(row(begin)) % static_cast<std::uintptr_t>(2 * depth) == 0;
  if (in_place) return {reinterpret_cast<const Real*>(row(begin)), strides.row / 2};
  const std::int64_t width = round_up(features, depth);
  auto* to = reinterpret_cast<std::uint16_t*>(buffer);
  for (std::int64_t k = begin; k < end; ++k, to += width) {
    read(k, to);
    std::fill(to + features, to + width, std::uint16_t{0});
  }
  return {buffer, width / 2};
}

/// A value of a tensor in float64, exactly.
inline double number_at(const Kernels& kernels, ElementType type, const std::byte* at) {
  if (type == ElementType::kF32) return *reinterpret_cast<const float*>(at);
  double number = 0;
  kernels.f64.numbers.read(type, at, 1, 1, &number);
  return number;
}

/// A row of a tensor where it lies, if its values are Reals side by side; else in `buffer`.
template <class Real>
const Real* readable(const KernelTable<Real>& kernels, const Layout& layout, const std::byte* row,
                     std::size_t features, Real* buffer) {
  if (has_rows_of(kTypeOf<Real>, layout)) return reinterpret_cast<const Real*>(row);
  kernels.numbers.read(layout.type, row, layout.strides.feature, features, buffer);
  return buffer;
}

/// The other way: to[i][x] = columns[x][i] / sum[i] for `rows` lanes of a panel. Rows of another
/// type are narrowed in `buffer`, [rows][count]. `past_caches` as of the kernel; `wanted`: of which
/// rows alone, unless it is nullptr.
template <class Real>
void store_columns(const KernelTable<Real>& kernels, const Real* columns, const Real* sum,
                   std::size_t count, std::byte* const* to, std::size_t rows, std::size_t vectors,
                   const Layout& layout, Real* buffer, bool past_caches = false,
                   const bool* wanted = nullptr) {
  const bool in_place = layout.type == kTypeOf<Real> && wanted == nullptr;
  Real* out[kMaxPanel] = {};
  for (std::size_t i = 0; i < rows; ++i)
    out[i] = in_place ? reinterpret_cast<Real*>(to[i]) : buffer + i * count;
  kernels.panels.finish(vectors, columns, sum, count, out, rows,
                        in_place ? layout.strides.feature : 1, past_caches && in_place);
  for (std::size_t i = 0; i < rows && !in_place; ++i)
    if (wanted == nullptr || wanted[i])
      kernels.numbers.write(layout.type, out[i], count, to[i], layout.strides.feature);
}

}  // namespace heed
