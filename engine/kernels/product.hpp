// The two products of attention, which are one: rows of a matrix that stays where it lies,
// times a panel with query rows in the lanes.
//
//   S^T[key][query]      = sum over features of key[key][feature] * Q^T[feature][query]
//   O^T[feature][query] += sum over keys of value[key][feature] * P^T[key][query]
#pragma once

#include "engine/kernels/arch.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// Rows computed together. Enough independent chains to cover the latency of a multiply-add
/// (8 on the cores measured), few enough to stay in registers with W vectors and a broadcast:
/// 4 x 3 of 16 registers, 8 x 3 of 32.
template <class V, std::size_t W>
inline constexpr std::size_t kGroup = (kIsAvx512<V> || kIsNeon<V> || W == 1) ? 8 : 4;

/// sums[r][w] += row[r][at] * panel[w].
template <class V, std::size_t R, std::size_t W, class Real = RealOf<V>>
HEED_INLINE void multiply_step(const Real* const (&row)[R], std::ptrdiff_t at, const Real* panel,
                               V (&sums)[R][W]) {
  V b[W];
  unroll<W>([&](auto w) HEED_FLAT { b[w] = load<V>(panel + w * kLanes<V>); });
  unroll<R>([&](auto r) HEED_FLAT {
    const V a(row[r][at]);
    unroll<W>([&](auto w) HEED_FLAT { sums[r][w] = multiply_add(a, b[w], sums[r][w]); });
  });
}

/// sums[r][w] += sum over k < count of row[r][k * step] * panel[k][w], in order of k. Unrolled by
/// four, so that the end of a loop of 128 comes as no surprise to the branch predictor: that cost
/// 9 % at 128 features.
template <class V, std::size_t R, std::size_t W, class Real = RealOf<V>>
HEED_INLINE void multiply_rows(const Real* const (&row)[R], std::ptrdiff_t step, const Real* panel,
                               std::size_t count, V (&sums)[R][W]) {
  constexpr std::size_t pitch = W * kLanes<V>;
  std::ptrdiff_t at = 0;
  std::size_t k = 0;
  for (; k + 4 <= count; k += 4) {
    unroll<4>([&](auto) HEED_FLAT {
      multiply_step<V>(row, at, panel, sums);
      unroll<R>([&](auto r)
                    HEED_FLAT { unroll<W>([&](auto w) HEED_FLAT { pin<V>(sums[r][w]); }); });
      panel += pitch;
      at += step;
    });
  }
  for (; k < count; ++k) {
    multiply_step<V>(row, at, panel, sums);
    panel += pitch;
    at += step;
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void scores(const MatrixView<Real>& key, std::size_t keys, const Real* panel, std::size_t features,
            Real* out) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t group = kGroup<V, W>;
  for (std::size_t j = 0; j < keys; j += group) {
    const Real* row[group];
    V sums[group][W];
    unroll<group>([&](auto r) HEED_FLAT {
      // Past the end the last key is scored again: reading it is safe, the result unused.
      const std::size_t index = j + r < keys ? j + r : keys - 1;
      row[r] = key.data + static_cast<std::ptrdiff_t>(index) * key.row_stride;
      unroll<W>([&](auto w) HEED_FLAT { sums[r][w] = V(Real{0}); });
    });
    multiply_rows<V>(row, key.column_stride, panel, features, sums);
    unroll<group>([&](auto r) HEED_FLAT {
      unroll<W>([&](auto w) HEED_FLAT { store<V>(out + (j + r) * W * n + w * n, sums[r][w]); });
    });
  }
}

template <class V, std::size_t W, class Real = RealOf<V>>
void accumulate(const ValueView<Real>& value, std::size_t keys, const Real* weights,
                Real* accumulators, std::size_t features, bool fresh) {
  constexpr std::size_t n = kLanes<V>;
  constexpr std::size_t group = kGroup<V, W>;
  for (std::size_t x = 0; x < features; x += group) {
    const Real* row[group];
    V sums[group][W];
    Real* const out = accumulators + x * W * n;
    unroll<group>([&](auto r) HEED_FLAT {
      const std::size_t feature = x + r < features ? x + r : features - 1;
      row[r] = value.data +
               static_cast<std::ptrdiff_t>(feature / kValueBlock) * value.block_stride +
               static_cast<std::ptrdiff_t>(feature % kValueBlock) * value.feature_stride;
      unroll<W>([&](auto w) HEED_FLAT {
        sums[r][w] = fresh ? V(Real{0}) : load<V>(out + r * W * n + w * n);
      });
    });
    multiply_rows<V>(row, value.key_stride, weights, keys, sums);
    unroll<group>([&](auto r) HEED_FLAT {
      unroll<W>([&](auto w) HEED_FLAT { store<V>(out + r * W * n + w * n, sums[r][w]); });
    });
  }
}

}  // namespace
}  // namespace heed
