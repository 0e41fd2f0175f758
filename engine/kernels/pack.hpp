// Where row-major tensors become transposed panels and back: the query on the way in, the
// output on the way out, and values copied to where they do not share cache sets.
#pragma once

#include "engine/kernels/arch.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// Asks for the first `features` of rows [begin, end), to read (0) or to write (1): a group of
/// short rows ends before the processor has noticed that it is a pattern.
template <int kWrite, class Rows>
HEED_INLINE void prefetch_rows(const Rows& rows, std::size_t begin, std::size_t end,
                               std::size_t features) {
  for (std::size_t r = begin; r < end; ++r)
    for (std::size_t x = 0; x < features; x += kValueBlock)
      __builtin_prefetch(rows[r] + x, kWrite, 3);
}

template <class Arch, std::size_t W>
void pack_query(const float* const* rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                std::size_t features, float scale, float* panel) {
  constexpr std::size_t n = kLanes<Arch>;
  constexpr std::size_t pitch = W * n;
  const std::size_t whole = feature_stride == 1 ? features / n * n : 0;
  prefetch_rows<0>(rows, 0, row_count < n ? row_count : n, whole);
  for (std::size_t r0 = 0; r0 < pitch; r0 += n) {
    const std::size_t present = row_count > r0 ? row_count - r0 : 0;
    prefetch_rows<0>(rows, r0 + n, row_count < r0 + 2 * n ? row_count : r0 + 2 * n, whole);
    for (std::size_t x = 0; x < whole; x += n) {
      Vec<Arch> square[n];
      unroll<n>([&](auto r) HEED_FLAT {
        square[r] = r < present ? Vec<Arch>::load_unaligned(rows[r0 + r] + x) * Vec<Arch>(scale)
                                : Vec<Arch>(0.0F);
      });
      transpose<Arch>(square);
      unroll<n>([&](auto i) HEED_FLAT { store(panel + (x + i) * pitch + r0, square[i]); });
    }
  }
  for (std::size_t x = whole; x < features; ++x) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(x) * feature_stride;
    for (std::size_t r = 0; r < pitch; ++r)
      panel[x * pitch + r] = r < row_count ? rows[r][at] * scale : 0.0F;
  }
}

template <class Arch, std::size_t W>
void finish(float* accumulators, const float* sum, std::size_t features, float* const* out_rows,
            std::size_t row_count, std::ptrdiff_t feature_stride) {
  constexpr std::size_t n = kLanes<Arch>;
  constexpr std::size_t pitch = W * n;
  alignas(kAlignment) float inverse[pitch];
  for (std::size_t r = 0; r < pitch; ++r) inverse[r] = sum[r] == 0.0F ? 0.0F : 1.0F / sum[r];

  const std::size_t whole = feature_stride == 1 ? features / n * n : 0;
  prefetch_rows<1>(out_rows, 0, row_count < n ? row_count : n, whole);
  for (std::size_t r0 = 0; r0 < row_count; r0 += n) {
    const std::size_t present = row_count - r0 < n ? row_count - r0 : n;
    prefetch_rows<1>(out_rows, r0 + n, row_count < r0 + 2 * n ? row_count : r0 + 2 * n, whole);
    const Vec<Arch> factor = load<Arch>(inverse + r0);
    for (std::size_t x = 0; x < whole; x += n) {
      Vec<Arch> square[n];
      unroll<n>([&](auto i) HEED_FLAT {
        square[i] = load<Arch>(accumulators + (x + i) * pitch + r0) * factor;
      });
      transpose<Arch>(square);
      unroll<n>([&](auto r) HEED_FLAT {
        if (r < present) square[r].store_unaligned(out_rows[r0 + r] + x);
      });
    }
  }
  for (std::size_t x = whole; x < features; ++x) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(x) * feature_stride;
    for (std::size_t r = 0; r < row_count; ++r)
      out_rows[r][at] = accumulators[x * pitch + r] * inverse[r];
  }
}

/// Keys one after the other, as they lie in memory, so that the processor sees them coming.
template <class Arch>
void pack_values(const MatrixView& value, std::size_t keys, std::size_t features, float* packed) {
  constexpr std::size_t n = kLanes<Arch>;
  static_assert(kValueBlock % n == 0);
  const std::size_t whole = value.column_stride == 1 ? features / kValueBlock * kValueBlock : 0;
  const float* row = value.data;
  for (std::size_t j = 0; j < keys; ++j) {
    float* to = packed + j * kValueBlock;
    for (std::size_t x = 0; x < whole; x += kValueBlock) {
      unroll<kValueBlock / n>(
          [&](auto i) HEED_FLAT { store(to + i * n, Vec<Arch>::load_unaligned(row + x + i * n)); });
      to += keys * kValueBlock;
    }
    for (std::size_t x0 = whole; x0 < features; x0 += kValueBlock) {
      for (std::size_t x = x0; x < x0 + kValueBlock; ++x)
        to[x - x0] =
            x < features ? row[static_cast<std::ptrdiff_t>(x) * value.column_stride] : 0.0F;
      to += keys * kValueBlock;
    }
    row += value.row_stride;
  }
}

}  // namespace
}  // namespace heed
