// Where row-major tensors become transposed panels and back: the query on the way in, the
// output on the way out, and values copied to where they do not share cache sets.
#pragma once

#include "engine/kernels/arch.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

template <class Arch, std::size_t W>
void pack_query(const float* const* rows, std::size_t row_count, std::ptrdiff_t feature_stride,
                std::size_t features, float scale, float* panel) {
  constexpr std::size_t n = kLanes<Arch>;
  constexpr std::size_t pitch = W * n;
  const std::size_t whole = feature_stride == 1 ? features / n * n : 0;
  for (std::size_t r0 = 0; r0 < pitch; r0 += n) {
    const std::size_t present = row_count > r0 ? row_count - r0 : 0;
    for (std::size_t x = 0; x < whole; x += n) {
      Vec<Arch> square[n];
      unroll<n>([&](auto r) {
        square[r] = r < present ? Vec<Arch>::load_unaligned(rows[r0 + r] + x) * Vec<Arch>(scale)
                                : Vec<Arch>(0.0F);
      });
      transpose<Arch>(square);
      unroll<n>([&](auto i) { store(panel + (x + i) * pitch + r0, square[i]); });
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
  for (std::size_t r0 = 0; r0 < row_count; r0 += n) {
    const std::size_t present = row_count - r0 < n ? row_count - r0 : n;
    const Vec<Arch> factor = load<Arch>(inverse + r0);
    for (std::size_t x = 0; x < whole; x += n) {
      Vec<Arch> square[n];
      unroll<n>(
          [&](auto i) { square[i] = load<Arch>(accumulators + (x + i) * pitch + r0) * factor; });
      transpose<Arch>(square);
      unroll<n>([&](auto r) {
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

template <class Arch>
void pack_values(const MatrixView& value, std::size_t keys, std::size_t features, float* packed) {
  constexpr std::size_t n = kLanes<Arch>;
  static_assert(kValueBlock % n == 0);
  for (std::size_t x0 = 0; x0 < features; x0 += kValueBlock) {
    const std::size_t present = features - x0 < kValueBlock ? features - x0 : kValueBlock;
    const float* row = value.data + static_cast<std::ptrdiff_t>(x0) * value.column_stride;
    const bool whole = present == kValueBlock && value.column_stride == 1;
    for (std::size_t j = 0; j < keys; ++j) {
      if (whole) {
        unroll<kValueBlock / n>(
            [&](auto i) { store(packed + i * n, Vec<Arch>::load_unaligned(row + i * n)); });
      } else {
        for (std::size_t x = 0; x < kValueBlock; ++x)
          packed[x] =
              x < present ? row[static_cast<std::ptrdiff_t>(x) * value.column_stride] : 0.0F;
      }
      packed += kValueBlock;
      row += value.row_stride;
    }
  }
}

}  // namespace
}  // namespace heed
