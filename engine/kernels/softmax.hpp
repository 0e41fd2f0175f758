// Online softmax down the columns of a score tile: query rows lie in the lanes, so maxima and
// sums over keys are plain vertical operations.
#pragma once

#include "engine/kernels/arch.hpp"
#include "engine/kernels/exp2.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// How far, in log2 units, a score may outgrow its row's reference before the row is rescaled.
/// Weights are then at most 2^8, far from overflow, and rescaling is rare: after the first
/// step a maximum seldom grows by a factor of 256.
inline constexpr float kRescaleThreshold = 8.0F;

inline constexpr float kLargest = 3.402823466e+38F;
inline constexpr float kInfinity = __builtin_huge_valf();

template <class Arch, std::size_t W>
void mask(float* scores, std::size_t keys, const float* limit) {
  constexpr std::size_t n = kLanes<Arch>;
  const Vec<Arch> excluded(-kInfinity);
  for (std::size_t j = 0; j < keys; ++j) {
    const Vec<Arch> key(static_cast<float>(j));
    unroll<W>([&](auto w) {
      float* const at = scores + (j * W + w) * n;
      store(at, xsimd::select(key < load<Arch>(limit + w * n), load<Arch>(at), excluded));
    });
  }
}

/// Moves the references of the rows whose maximum `top` has outgrown them, and rescales their
/// sums and accumulators. The other rows are multiplied by exactly 1.
///
/// A maximum of +inf becomes the largest finite reference, and scores of +inf become the same
/// number: they share the weight evenly, and nothing is inf - inf.
template <class Arch, std::size_t W>
[[gnu::noinline]] void rescale(float* scores, std::size_t keys, const RowState& rows,
                               std::size_t value_features, const float* top) {
  constexpr std::size_t n = kLanes<Arch>;
  Vec<Arch> factor[W];
  bool overflow = false;
  unroll<W>([&](auto w) {
    const Vec<Arch> old = load<Arch>(rows.reference + w * n);
    const Vec<Arch> maximum = load<Arch>(top + w * n);
    overflow = overflow || xsimd::any(maximum == Vec<Arch>(kInfinity));
    const Vec<Arch> moved = xsimd::select(maximum > old + Vec<Arch>(kRescaleThreshold),
                                          at_most(kLargest, maximum), old);
    factor[w] = exp2(old - moved);
    store(rows.reference + w * n, moved);
    store(rows.sum + w * n, load<Arch>(rows.sum + w * n) * factor[w]);
  });
  if (overflow) {
    for (std::size_t i = 0; i < keys * W * n; i += n)
      store(scores + i, at_most(kLargest, load<Arch>(scores + i)));
  }
  if (rows.fresh) return;
  for (std::size_t x = 0; x < value_features; ++x) {
    unroll<W>([&](auto w) {
      float* const at = rows.accumulators + (x * W + w) * n;
      store(at, load<Arch>(at) * factor[w]);
    });
  }
}

template <class Arch, std::size_t W>
void softmax(float* scores, std::size_t keys, const RowState& rows, std::size_t value_features) {
  constexpr std::size_t n = kLanes<Arch>;
  alignas(kAlignment) float top_of[W * n];
  Vec<Arch> top[W];
  unroll<W>([&](auto w) { top[w] = Vec<Arch>(kNoReference); });
  for (std::size_t j = 0; j < keys; ++j)
    unroll<W>([&](auto w) { top[w] = xsimd::max(top[w], load<Arch>(scores + (j * W + w) * n)); });

  bool grown = false;
  unroll<W>([&](auto w) {
    store(top_of + w * n, top[w]);
    grown = grown ||
            xsimd::any(top[w] > load<Arch>(rows.reference + w * n) + Vec<Arch>(kRescaleThreshold));
  });
  if (grown) rescale<Arch, W>(scores, keys, rows, value_features, top_of);

  Vec<Arch> reference[W];
  Vec<Arch> sum[W];
  unroll<W>([&](auto w) {
    reference[w] = load<Arch>(rows.reference + w * n);
    sum[w] = load<Arch>(rows.sum + w * n);
  });
  for (std::size_t j = 0; j < keys; ++j) {
    unroll<W>([&](auto w) {
      float* const at = scores + (j * W + w) * n;
      const Vec<Arch> weight = exp2(load<Arch>(at) - reference[w]);
      sum[w] = sum[w] + weight;
      store(at, weight);
    });
  }
  unroll<W>([&](auto w) { store(rows.sum + w * n, sum[w]); });
}

}  // namespace
}  // namespace heed
