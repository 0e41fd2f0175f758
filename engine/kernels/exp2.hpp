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

#if defined(__AVX512F__)
/// Where a register holds 16 numbers 2^x = t (1 + f p(f)), with t = 2^s, s = x rounded to
/// sixteenths and f = x - s: 4 instructions of the units that multiply, in place of 7.
template <class V>
inline constexpr bool kLooksUp = kIsAvx512<V>&& kIsFloat<V>;

/// x + kRounder has s + 127 in the low bits of its mantissa, with four binary digits after the
/// point. Shifted up by 19, its whole part is the exponent of t; what is after the point, kPowers
/// have taken off the bits of 2^(i / 16), and the exponent of 1 as well.
struct Sixteenths {
  static constexpr float kRounder = 786432.0F + 127.0F;  ///< 1.5 * 2^19 + the exponent's bias
  static constexpr float kLowest = -126.0F;              ///< below it t would not be normal
  alignas(64) static constexpr std::uint32_t kPowers[16] = {
      0x00000000, 0xfffdaac3, 0xfffb95c2, 0xfff9c3d3, 0xfff837f0, 0xfff6f532,
      0xfff5fed7, 0xfff5583f, 0xfff504f3, 0xfff508a4, 0xfff5672a, 0xfff6248c,
      0xfff744fd, 0xfff8ccdf, 0xfffac0c7, 0xfffd257d};
  /// p, for the least relative error of 2^f on [-1/32, 1/32]: 1.6e-9.
  static constexpr float kCoefficients[] = {5.55041087e-2F, 2.402342834e-1F, 6.931471806e-1F};
};
#else
template <class V>
inline constexpr bool kLooksUp = false;
struct Sixteenths {};
#endif

/// The constants of 2^(x - whole), for whole numbers up to kMostWhole. The difference itself
/// is never there, so that none of x's digits is lost to it.
template <class V>
struct Exponent {
  using Constants = std::conditional_t<kLooksUp<V>, Sixteenths, Exp2<RealOf<V>>>;
  HEED_INLINE explicit Exponent(V whole)
      : lowest(V(Constants::kLowest) + whole), rounder(V(Constants::kRounder) - whole) {}
  HEED_INLINE Exponent() : lowest(Constants::kLowest), rounder(Constants::kRounder) {}

  V lowest, rounder;
};

#if defined(__AVX512F__)
/// exp2_of() by the table.
template <class V>
HEED_INLINE V looked_up_exp2(V x, Exponent<V> exponent) {
  const V shifted = x + exponent.rounder;
  const V f = x - (shifted - exponent.rounder);
  const __m512i bits = to_bits(shifted);
  const V t = from_bits<V>(BitsOf<V>(
      _mm512_add_epi32(_mm512_slli_epi32(bits, 19),
                       _mm512_permutexvar_epi32(bits, _mm512_load_si512(Sixteenths::kPowers)))));
  V p = multiply_add(V(Sixteenths::kCoefficients[0]), f, V(Sixteenths::kCoefficients[1]));
  p = multiply_add(p, f, V(Sixteenths::kCoefficients[2]));
  // NaN is not less.
  const __mmask16 counts = _mm512_cmp_ps_mask(x, exponent.lowest, _CMP_NLT_UQ);
  return V(_mm512_maskz_fmadd_ps(counts, f * p, t, t));
}
#endif

/// 2^x, error at most 1 ULP for float in [-126, 127.5] and double in [-1022, 1023.5]; +0 below
/// these by 0.5, by the table at once; NaN for NaN, exact for whole numbers, so that 2^0 is exactly
/// 1. Measured: float 0.95 ULP, by the table 0.99, double 0.79.
///
/// Multiplying by 2^n rather than adding to the exponent keeps a NaN a NaN, whatever its payload.
///
/// Without a fused multiply-add the last two steps would round too often (1.2 ULP). There the sum
/// 1 + f / 2 keeps its rounding error, and the rest is added to that (float 0.73 ULP, double 0.70).
template <class V>
HEED_INLINE V exp2_of(V x, Exponent<V> exponent = {}) {
#if defined(__AVX512F__)
  if constexpr (kLooksUp<V>) return looked_up_exp2(x, exponent);
#endif
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
