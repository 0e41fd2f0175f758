// 2^x for vectors, and 2^x - 1 with the same reduction and polynomial.
#pragma once

#include "engine/kernels/constants.hpp"
#include "engine/kernels/operations.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// x = n + f with n = round(x) and |f| <= 1/2.
template <class V>
struct Reduced {
  V power;     ///< 2^n
  V fraction;  ///< f, exact
};

/// Adding 1.5 * 2^23 + 127 (double: 1.5 * 2^52 + 1023) rounds x to n and leaves n + 127 in the low
/// bits of the mantissa. Shifted up by 23, these are the bits of the float 2^n.
template <class V>
HEED_INLINE Reduced<V> reduce_exponent(V x, V rounder = V(Exp2<RealOf<V>>::kRounder)) {
  const V shifted = x + rounder;
  return {mantissa_to_exponent(shifted), x - (shifted - rounder)};
}

/// q in 2^f = 1 + f (c + f q), where c is Exp2's kLast.
template <class V>
HEED_INLINE V polynomial(V f) {
  using Real = RealOf<V>;
  V q(Exp2<Real>::kCoefficients[0]);
  unroll<kExp2Coefficients<Real> - 1>([&](auto i) HEED_INLINE_LAMBDA {
    q = multiply_add(q, f, V(Exp2<Real>::kCoefficients[i + 1]));
  });
  return q;
}

/// The constants of 2^(x - whole), for whole numbers up to kMostWhole. The difference itself
/// is never there, so that none of x's digits is lost to it.
template <class V>
struct Exponent {
  HEED_INLINE explicit Exponent(V whole)
      : lowest(V(Exp2<RealOf<V>>::kLowest) + whole),
        rounder(V(Exp2<RealOf<V>>::kRounder) - whole) {}
  HEED_INLINE Exponent() : lowest(Exp2<RealOf<V>>::kLowest), rounder(Exp2<RealOf<V>>::kRounder) {}

  V lowest, rounder;
};

/// 2^x, error at most 1 ULP for float in [-126, 127.5] and double in [-1022, 1023.5]; +0 below
/// these by 0.5, NaN for NaN, exact for whole numbers, so that 2^0 is exactly 1.
/// Measured: float 0.95 ULP, double 0.79.
///
/// Multiplying by 2^n rather than adding to the exponent keeps a NaN a NaN, whatever its payload.
///
/// Without a fused multiply-add the last two steps would round too often (1.2 ULP). There the sum
/// 1 + f / 2 keeps its rounding error, and the rest is added to that (float 0.73 ULP, double 0.70).
template <class V>
HEED_INLINE V exp2_of(V x, Exponent<V> exponent = {}) {
  using Real = RealOf<V>;
  const V one(Real{1});
  const Reduced<V> s = reduce_exponent(at_least(exponent.lowest, x), exponent.rounder);
  const V f = s.fraction;
  const V q = polynomial(f);
  if constexpr (kFusesMultiplyAdd<V>) {
    const V p = multiply_add(q, f, V(Exp2<Real>::kLast));
    return multiply_add(p, f, one) * s.power;
  } else {
    const V p = multiply_add(q, f, V(Exp2<Real>::kLastLessHalf));
    const V half = f * V(Real{0.5});
    const V sum = half + one;
    const V lost = half - (sum - one);
    return (sum + (p * f + lost)) * s.power;
  }
}

/// 2^x - 1 for x in [-kSaturated, 0], without cancellation: (2^n - 1) + 2^n (2^f - 1). The exact f
/// / 2 is the last term of 2^f - 1, so that the rounding of the rest matters less.
template <class V>
HEED_INLINE V exp2_less_one(V x) {
  using Real = RealOf<V>;
  const Reduced<V> s = reduce_exponent(x);
  const V f = s.fraction;
  const V p = multiply_add(polynomial(f), f, V(Exp2<Real>::kLastLessHalf));
  const V growth = multiply_add(p, f, f * V(Real{0.5}));
  return multiply_add(s.power, growth, s.power - V(Real{1}));
}

}  // namespace
}  // namespace heed
