// 2^x for vectors, and what shares its reduction and its polynomial.
#pragma once

#include "engine/kernels/arch.hpp"
#include "engine/kernels/constants.hpp"
#include "engine/kernels/table.hpp"

namespace heed {
namespace {

/// x = n + f with n = round(x) and |f| <= 1/2.
template <class V>
struct Split {
  V power;     ///< 2^n
  V fraction;  ///< f, exact
};

/// Adding 1.5 * 2^23 + 127 (1.5 * 2^52 + 1023) rounds x to n and leaves n + 127 in the low bits
/// of the mantissa: shifted by 23 that is the float 2^n.
template <class V>
HEED_INLINE Split<V> split(V x) {
  const V rounder(Exp2<RealOf<V>>::kRounder);
  const V shifted = x + rounder;
  return {mantissa_to_exponent(shifted), x - (shifted - rounder)};
}

/// q where 2^f = 1 + f (c + f q), c being Exp2's last coefficient.
template <class V>
HEED_INLINE V polynomial(V f) {
  using Real = RealOf<V>;
  V q(Exp2<Real>::kCoefficients[0]);
  unroll<kExp2Coefficients<Real> - 1>(
      [&](auto i) HEED_FLAT { q = multiply_add(q, f, V(Exp2<Real>::kCoefficients[i + 1])); });
  return q;
}

/// 2^x, error at most 1 ULP for float in [-126, 127.5] and double in [-1022, 1023.5]; +0 below
/// these by 0.5, NaN for NaN, exact for whole numbers, so that a row's largest weight is exactly 1.
/// Measured: float 0.95 ULP, double 0.79.
///
/// Multiplying by 2^n rather than adding to the exponent keeps a NaN a NaN, whatever its payload.
///
/// Without a fused multiply-add the last two steps would round too often (1.2 ULP): there
/// 1 + f / 2 is summed with its rounding error kept, and the rest added to that (float 0.73 ULP,
/// double 0.70).
template <class V>
HEED_INLINE V exp2_of(V x) {
  using Real = RealOf<V>;
  const V one(Real{1});
  const Split<V> s = split(at_least(Exp2<Real>::kLowest, x));
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

/// 2^x - 1 for x in [-kSaturated, 0], without cancellation: (2^n - 1) + 2^n (2^f - 1). Of 2^f - 1
/// the exact f / 2 is added last, so that the rounding of the rest matters less.
template <class V>
HEED_INLINE V exp2_less_one(V x) {
  using Real = RealOf<V>;
  const Split<V> s = split(x);
  const V f = s.fraction;
  const V p = multiply_add(polynomial(f), f, V(Exp2<Real>::kLastLessHalf));
  const V growth = multiply_add(p, f, f * V(Real{0.5}));
  return multiply_add(s.power, growth, s.power - V(Real{1}));
}

template <class V>
void exp2_array(const RealOf<V>* x, RealOf<V>* y, std::size_t count) {
  constexpr std::size_t n = kLanes<V>;
  std::size_t i = 0;
  for (; i + n <= count; i += n) exp2_of(V::load_unaligned(x + i)).store_unaligned(y + i);
  if (i == count) return;
  alignas(kAlignment) RealOf<V> rest[n] = {};
  for (std::size_t k = 0; i + k < count; ++k) rest[k] = x[i + k];
  store<V>(rest, exp2_of(load<V>(rest)));
  for (std::size_t k = 0; i + k < count; ++k) y[i + k] = rest[k];
}

}  // namespace
}  // namespace heed
