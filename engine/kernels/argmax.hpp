// For hard attention: the highest score of each row, and which key has it.
#pragma once

#include "engine/kernels/operations.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// A best score of NaN stays, because nothing exceeds it.
template <class V, std::size_t W, class Real = RealOf<V>>
void argmax(const Real* scores, std::size_t keys, Real* best_of, Real* index_of) {
  constexpr std::size_t n = kLanes<V>;
  V best[W];
  V index[W];
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    best[w] = load<V>(best_of + w * n);
    index[w] = load<V>(index_of + w * n);
  });
  for (std::size_t j = 0; j < keys; ++j) {
    const V key(static_cast<Real>(j));
    unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
      const V score = load<V>(scores + (j * W + w) * n);
      const auto exceeds = score > best[w];
      index[w] = xsimd::select(exceeds, key, index[w]);
      best[w] = xsimd::select(exceeds | xsimd::isnan(score), score, best[w]);
    });
  }
  unroll<W>([&](auto w) HEED_INLINE_LAMBDA {
    store<V>(best_of + w * n, best[w]);
    store<V>(index_of + w * n, index[w]);
  });
}

}  // namespace
}  // namespace heed
