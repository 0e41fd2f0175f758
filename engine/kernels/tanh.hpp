// tanh of vectors.
#pragma once

#include "engine/kernels/constants.hpp"
#include "engine/kernels/exp2.hpp"
#include "engine/kernels/operations.hpp"

namespace heed {
namespace {

/// tanh(x) for t = 2 log2(e) x: (e^2x - 1) / (e^2x + 1), computed for -|x| and given the sign of x.
/// Nothing cancels and, since rounding is monotonic, nothing exceeds 1. For +|x| the sum would
/// round to twice the unit: 4.006 ULP.
template <class V>
HEED_INLINE V tanh_of_exponent(V t) {
  using Real = RealOf<V>;
  const V e = exp2_less_one(at_least(V(-kSaturated<Real>), V(Real{0}) - xsimd::abs(t)));
  return xsimd::copysign(divide(e, e + V(Real{2})), t);
}

}  // namespace
}  // namespace heed
