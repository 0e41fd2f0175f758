// Combines the results of heads, feature by feature.
#pragma once

#include <cstdint>

#include "api/heed.h"

namespace heed {

/// to[x] = heads[h * stride + x], combined (weighted, mean or max) over h < count, for x <
/// features. Sums are taken in the order of the heads. `head_weights` is [count], used with
/// HEED_COMBINE_WEIGHTED alone.
template <class Real>
void combine_heads(heed_combine combine, const Real* heads, std::int64_t count, std::int64_t stride,
                   std::int64_t features, const Real* head_weights, Real* to);

/// The way back: to[h * stride + x], the gradient of feature x of head h, from the gradient of the
/// result. Of HEED_COMBINE_MAX the head that is the result has all of it, of equal ones the first.
template <class Real>
void split_gradient(heed_combine combine, const Real* gradient, const Real* heads,
                    std::int64_t count, std::int64_t stride, std::int64_t features,
                    const Real* head_weights, Real* to);

/// "concat", "mean" and so on.
const char* name_of(heed_combine combine);

}  // namespace heed
