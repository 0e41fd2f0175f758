// Combines the results of heads, feature by feature.
#pragma once

#include <cstdint>

#include "api/heed.h"

namespace heed {

/// Whether the larger of the two, or NaN if either is, is the first.
template <class Real>
bool first_is_largest(Real a, Real b) {
  return b <= a || a != a;
}

/// to[x] = heads[h * stride + x], combined (weighted, mean or max) over h < count, for x <
/// features. Sums are taken in the order of the heads. `head_weights` is [count], used with
/// HEED_COMBINE_WEIGHTED alone.
template <class Real>
void combine_heads(heed_combine combine, const Real* heads, std::int64_t count, std::int64_t stride,
                   std::int64_t features, const Real* head_weights, Real* to) {
  const bool weighted = combine == HEED_COMBINE_WEIGHTED;
  const Real first = weighted ? head_weights[0] : Real{1};
  for (std::int64_t x = 0; x < features; ++x) to[x] = first * heads[x];
  for (std::int64_t h = 1; h < count; ++h) {
    const Real* const head = heads + h * stride;
    const Real weight = weighted ? head_weights[h] : Real{1};
    if (combine == HEED_COMBINE_MAX) {
      for (std::int64_t x = 0; x < features; ++x)
        to[x] = first_is_largest(to[x], head[x]) ? to[x] : head[x];
    } else {
      for (std::int64_t x = 0; x < features; ++x) to[x] += weight * head[x];
    }
  }
  if (combine != HEED_COMBINE_MEAN) return;
  for (std::int64_t x = 0; x < features; ++x) to[x] /= static_cast<Real>(count);
}

/// The way back: to[h * stride + x], the gradient of feature x of head h, from the gradient of the
/// result. With HEED_COMBINE_MAX the largest head has all of it, of equal ones the first.
template <class Real>
void split_gradient(heed_combine combine, const Real* gradient, const Real* heads,
                    std::int64_t count, std::int64_t stride, std::int64_t features,
                    const Real* head_weights, Real* to) {
  for (std::int64_t h = 0; h < count && combine != HEED_COMBINE_MAX; ++h)
    for (std::int64_t x = 0; x < features; ++x)
      to[h * stride + x] = combine == HEED_COMBINE_WEIGHTED
                               ? head_weights[h] * gradient[x]
                               : gradient[x] / static_cast<Real>(count);
  for (std::int64_t x = 0; x < features && combine == HEED_COMBINE_MAX; ++x) {
    std::int64_t largest = 0;
    for (std::int64_t h = 0; h < count; ++h) {
      to[h * stride + x] = 0;
      if (!first_is_largest(heads[largest * stride + x], heads[h * stride + x])) largest = h;
    }
    to[largest * stride + x] = gradient[x];
  }
}

/// "concat", "mean" and so on.
inline const char* name_of(heed_combine combine) {
  constexpr const char* kNames[] = {"concat", "weighted", "mean", "max", "tensor", "heads"};
  return kNames[combine];
}

}  // namespace heed
