// Row-major tensors become transposed panels and back: the query on the way in, the output on the
// way out. Values are copied to where they do not share cache sets.
#pragma once

#include "engine/kernels/operations.hpp"
#include "engine/kernels/table.hpp"
#include "engine/kernels/transpose.hpp"

namespace heed {
namespace {

/// Prefetches the first `features` of rows [begin, end), to read (0) or to write (1): short rows
/// end before the processor has noticed a pattern.
template <int kWrite, class Real>
HEED_INLINE void prefetch_rows(Real* const* rows, std::size_t begin, std::size_t end,
                               std::size_t features) {
  constexpr std::size_t line = 64 / sizeof(Real);
  for (std::size_t r = begin; r < end; ++r)
    for (std::size_t x = 0; x < features; x += line) __builtin_prefetch(rows[r] + x, kWrite, 3);
}

/// How many features of rows are transposed in squares of vectors: all, if they lie side by side
/// and fill one. The last square then begins where it ends with the row, and repeats what the one
/// before it did.
template <class V>
HEED_INLINE std::size_t squared_features(std::size_t features, std::ptrdiff_t stride) {
  return stride == 1 && features >= kLanes<V> ? features : 0;
}

template <class V, std::size_t W, class Real = RealOf<V>>
void pack_query(const Real* const* rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                std::size_t features, Real scale, Real* panel) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t pitch = W * n;
  const std::size_t whole = squared_features<V>(features, feature_stride);
  prefetch_rows<0>(rows, 0, row_count < n ? row_count : n, whole);
  for (std::size_t r0 = 0; r0 < pitch; r0 += n) {
    const std::size_t present = row_count > r0 ? row_count - r0 : 0;
    prefetch_rows<0>(rows, r0 + n, row_count < r0 + 2 * n ? row_count : r0 + 2 * n, whole);
    for (std::size_t begin = 0; begin < whole; begin += n) {
      const std::size_t x = begin + n <= whole ? begin : whole - n;
      V square[n];
      unroll<n>([&](auto r) HEED_INLINE_LAMBDA {
        square[r] = r < present ? V::load_unaligned(rows[r0 + r] + x) * V(scale) : V(Real{0});
      });
      transpose_square<V>(square);
      unroll<n>([&](auto i)
                    HEED_INLINE_LAMBDA { store<V>(panel + (x + i) * pitch + r0, square[i]); });
    }
  }
  for (std::size_t x = whole; x < features; ++x) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(x) * feature_stride;
    for (std::size_t r = 0; r < pitch; ++r)
      panel[x * pitch + r] = r < row_count ? rows[r][at] * scale : Real{0};
  }
}

/// factors = 1 / row_sum, and 0 where row_sum is 0, for the rows of W vectors.
template <class V, std::size_t W, class Real = RealOf<V>>
HEED_INLINE void invert(const Real* row_sum, V (&factors)[W]) {
  constexpr std::size_t n = kLanes<V>;
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    const V zero(Real{0});
    const V of = load<V>(row_sum + w * n);
    factors[w] = xsimd::select(of == zero, zero, divide(V(Real{1}), of));
  });
}

/// to = from * factors, for one feature.
template <class V, std::size_t W, class Real = RealOf<V>>
HEED_INLINE void multiply_column(const Real* from, const V (&factors)[W], Real* to) {
  constexpr std::size_t n = kLanes<V>;
  unroll<W>([&](auto w)
                HEED_INLINE_LAMBDA { store<V>(to + w * n, load<V>(from + w * n) * factors[w]); });
}

template <class V, std::size_t W, class Real = RealOf<V>>
void normalise(const Real* accumulators, const Real* row_sum, std::size_t features, Real* to) {
  constexpr std::size_t pitch = W * kLanes<V>;
  V factors[W];
  invert<V, W>(row_sum, factors);
  for (std::size_t x = 0; x < features; ++x)
    multiply_column<V, W>(accumulators + x * pitch, factors, to + x * pitch);
}

template <class V, std::size_t W, class Real = RealOf<V>>
void finish(const Real* accumulators, const Real* row_sum, std::size_t features,
            Real* const* out_rows, std::size_t row_count, std::ptrdiff_t feature_stride,
            bool past_caches) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t pitch = W * n;
  V factors[W];
  invert<V, W>(row_sum, factors);

  const std::size_t whole = squared_features<V>(features, feature_stride);
  const bool streams = past_caches && kStreams<V> && whole > 0 && row_count > 0;
  const std::size_t prefetched = streams ? 0 : whole;
  // Squares after the first begin where a vector of the first row is aligned, as vectors of the
  // other rows are in most tensors.
  const std::size_t second = streams ? n - misaligned<V>(out_rows[0]) : n;
  prefetch_rows<1>(out_rows, 0, row_count < n ? row_count : n, prefetched);
  for (std::size_t w = 0; w < W; ++w) {
    const std::size_t r0 = w * n;
    const std::size_t present = row_count > r0 ? row_count - r0 : 0;
    prefetch_rows<1>(out_rows, r0 + n, row_count < r0 + 2 * n ? row_count : r0 + 2 * n, prefetched);
    for (std::size_t begin = 0; begin < whole && present > 0; begin += begin == 0 ? second : n) {
      const std::size_t x = begin + n <= whole ? begin : whole - n;
      V square[n];
      unroll<n>([&](auto i) HEED_INLINE_LAMBDA {
        square[i] = load<V>(accumulators + (x + i) * pitch + r0) * factors[w];
      });
      transpose_square<V>(square);
      unroll<n>([&](auto r) HEED_INLINE_LAMBDA {
        if (r >= present) return;
        Real* const to = out_rows[r0 + r] + x;
        if (streams && misaligned<V>(to) == 0)
          stream<V>(to, square[r]);
        else
          square[r].store_unaligned(to);
      });
    }
  }
  if (streams) end_streams<V>();
  for (std::size_t x = whole; x < features; ++x) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(x) * feature_stride;
    alignas(kAlignment) Real column[pitch];
    multiply_column<V, W>(accumulators + x * pitch, factors, column);
    for (std::size_t r = 0; r < row_count; ++r) out_rows[r][at] = column[r];
  }
}

/// For values whose keys lie side by side: transposes squares of them.
template <class V, class Real = RealOf<V>>
void pack_values_by_columns(const MatrixView<Real>& value, std::size_t keys, std::size_t features,
                            Real* packed) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t block = PanelGeometry::value_block;
  const std::size_t whole = keys / n * n;
  for (std::size_t x0 = 0; x0 < (features + block - 1) / block * block; x0 += n) {
    const std::size_t present = features > x0 ? features - x0 : 0;
    const Real* const from = value.data + static_cast<std::ptrdiff_t>(x0) * value.column_stride;
    Real* const to = packed + x0 / block * block * keys + x0 % block;
    for (std::size_t j = 0; j < whole; j += n) {
      V square[n];
      unroll<n>([&](auto i) HEED_INLINE_LAMBDA {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) * value.column_stride;
        square[i] = i < present ? V::load_unaligned(from + at + j) : V(Real{0});
      });
      transpose_square<V>(square);
      unroll<n>([&](auto r) HEED_INLINE_LAMBDA { store<V>(to + (j + r) * block, square[r]); });
    }
    for (std::size_t j = whole; j < keys; ++j)
      for (std::size_t i = 0; i < n; ++i)
        to[j * block + i] = i < present
                                ? from[static_cast<std::ptrdiff_t>(i) * value.column_stride +
                                       static_cast<std::ptrdiff_t>(j)]
                                : Real{0};
  }
}

/// For all other values: takes keys one after the other, as they lie in memory, so that the
/// processor sees them coming; a few blocks at a time, since the blocks of a key share cache sets.
template <class V, class Real = RealOf<V>>
void pack_values_by_rows(const MatrixView<Real>& value, std::size_t keys, std::size_t features,
                         Real* packed) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t block = PanelGeometry::value_block;
  constexpr std::size_t together = 4;
  constexpr std::size_t ahead = 8;  // keys
  static_assert(block % n == 0);
  const std::size_t whole = value.column_stride == 1 ? features / block : 0;  // blocks
  for (std::size_t first = 0; first < whole; first += together) {
    const std::size_t blocks = whole - first < together ? whole - first : together;
    const Real* row = value.data + first * block;
    for (std::size_t j = 0; j < keys; ++j) {
      Real* to = packed + first * block * keys + j * block;
      for (std::size_t b = 0; b < blocks; ++b) {
        if (j + ahead < keys)
          __builtin_prefetch(
              row + static_cast<std::ptrdiff_t>(ahead) * value.row_stride + b * block, 0, 3);
        unroll<block / n>([&](auto i) HEED_INLINE_LAMBDA {
          store<V>(to + i * n, V::load_unaligned(row + b * block + i * n));
        });
        to += keys * block;
      }
      row += value.row_stride;
    }
  }
  for (std::size_t x0 = whole * block; x0 < features; x0 += block) {
    const Real* row = value.data;
    for (std::size_t j = 0; j < keys; ++j) {
      Real* const to = packed + x0 * keys + j * block;
      for (std::size_t x = x0; x < x0 + block; ++x)
        to[x - x0] =
            x < features ? row[static_cast<std::ptrdiff_t>(x) * value.column_stride] : Real{0};
      row += value.row_stride;
    }
  }
}

template <class V, class Real = RealOf<V>>
void pack_values(const MatrixView<Real>& value, std::size_t keys, std::size_t features,
                 Real* packed) {
  if (value.row_stride == 1 && value.column_stride != 1) {
    pack_values_by_columns<V>(value, keys, features, packed);
  } else {
    pack_values_by_rows<V>(value, keys, features, packed);
  }
}

}  // namespace
}  // namespace heed
