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

/// "concat", "mean" and so on.
const char* name_of(heed_combine combine);

extern template void combine_heads(heed_combine, const float*, std::int64_t, std::int64_t,
                                   std::int64_t, const float*, float*);
extern template void combine_heads(heed_combine, const double*, std::int64_t, std::int64_t,
                                   std::int64_t, const double*, double*);

}  // namespace heed
