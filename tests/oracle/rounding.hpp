// The model of floating-point arithmetic that every error bound in the tests is derived from.
//
//   computed = exact * (1 + d) + e     |d| <= kUnit, |e| <= kUnderflow, one of them 0
//
// for + - * / and a fused multiply-add, rounded to nearest (Higham, Accuracy and Stability of
// Numerical Algorithms, 2nd edition, sections 2.2 and 3.1).
//
// The plain names are float32's. Those with a type, as kUnitOf<double>, also hold what the
// oracle loses: it is the same operations in a wider type, and rounds as often as what it
// judges. For n roundings of either, gamma(n; u) + gamma(n; v) <= gamma(n; u + v).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace heed_test {

inline constexpr double kUnit = 0x1p-24;
inline constexpr double kUnderflow = 0x1p-150;
inline constexpr double kLn2 = 0.6931471805599453;
inline constexpr double kLog2E = 1.4426950408889634;

/// n roundings one after the other are off by a factor 1 + d, |d| <= gamma_of(n). So is every
/// term of a sum of n products, added in any order, with or without fusing: the first sum,
/// with 0, is exact, so that a term sees its product's rounding and n - 1 sums' at most.
constexpr double gamma_of(double n) { return n * kUnit / (1 - n * kUnit); }

/// The type of the oracle and of bounds: float64 for float32, and for float64 what the processor
/// has that is wider (64 bits of mantissa on x86, 113 on Arm).
template <class Real>
using Wide = std::conditional_t<std::is_same_v<Real, float>, double, long double>;
static_assert(std::numeric_limits<long double>::digits >= 64, "float64 needs a wider oracle");

template <class Real>
inline constexpr Wide<Real> kUnitOf =
    static_cast<Wide<Real>>(std::numeric_limits<Real>::epsilon()) / 2 +
    std::numeric_limits<Wide<Real>>::epsilon() / 2;

template <class Real>
inline constexpr Wide<Real> kUnderflowOf =
    static_cast<Wide<Real>>(std::numeric_limits<Real>::denorm_min()) / 2;

/// The smallest normal number, and its logarithm.
template <class Real>
inline constexpr Wide<Real> kSmallestOf = std::numeric_limits<Real>::min();
template <class Real>
inline constexpr int kSmallestExponentOf = std::numeric_limits<Real>::min_exponent - 1;

template <class Real>
constexpr Wide<Real> gamma_of(Wide<Real> n) {
  return n * kUnitOf<Real> / (1 - n * kUnitOf<Real>);
}

/// A log-sum-exp further from 0 has lost digits, as a Real, that weights show.
template <class Real>
inline constexpr double kFarLse = std::is_same_v<Real, float> ? 0x1p10 : 0x1p39;

/// Rows of the heads that share a key head, at most, which may be decoded: those of a vector.
template <class Real>
inline constexpr int kFewRows = 64 / static_cast<int>(sizeof(Real));

/// The unit in the last place of x as a Real: the spacing of Reals from the power of two at or
/// below |x| to the next.
template <class Real>
Wide<Real> ulp_of(Wide<Real> x) {
  const int exponent = x == 0 ? kSmallestExponentOf<Real> : std::ilogb(x);
  return std::ldexp(static_cast<Wide<Real>>(1), std::max(exponent, kSmallestExponentOf<Real>) -
                                                    std::numeric_limits<Real>::digits + 1);
}

/// Of how many parts of bfloat16 a number is made; 0: it is multiplied as it is. Exact: one is all
/// of it, and weights are three.
struct Parts {
  int count = 0;
  bool exact = false;
};

/// Products of float32 as two parts of bfloat16, the second what the first leaves, rounded to 8
/// bits: at most 2^-8 / (1 + 2^-8) of the number, and what it leaves 2^-8 of that. So 2^-16 of each
/// number are missing, and the product of both second parts, less than 2^-16.
template <class Wide>
Wide left_out(Parts parts) {
  return static_cast<Wide>(parts.count == 2 ? 3 * 0x1p-16 : 0);
}
/// Three products of parts are added one by one, and their magnitudes sum up to (1 + 2^-8)^2 of the
/// whole's at most: as many roundings as four terms have. Of exact ones there is one.
template <class Wide>
Wide terms_of(Parts parts) {
  return parts.count == 2 ? 4 : 1;
}
/// The same of a weight and a value, which are three products either way.
template <class Wide>
Wide weighted_terms_of(Parts parts) {
  return parts.count > 0 ? 4 : 1;
}
/// What counts as 0 in one number, product or sum does so in at most three parts, three products
/// and three sums.
template <class Wide>
Wide flushes_of(Parts parts) {
  return parts.count == 0 ? 1 : 5;
}

/// Real is the type that heed computes in, Wide the one that the oracle does. kUnit holds what both
/// of them lose in one operation.
template <class Real>
struct Arithmetic {
  using Wide = heed_test::Wide<Real>;
  static constexpr Wide kUnit = kUnitOf<Real>;
  static constexpr Wide kUnderflow = kUnderflowOf<Real>;
  static constexpr Wide kSmallest = kSmallestOf<Real>;
  static constexpr Wide kMax = std::numeric_limits<Real>::max();
  /// The number below, which the highest finite scores count as.
  static constexpr Wide kHighest =
      kMax - kMax / (2 / static_cast<Wide>(std::numeric_limits<Real>::epsilon()) - 1);

  /// Roundings of a constant. heed computes them in float64, by five operations at most: 1 /
  /// sqrt(D) is two, then log2(e), temperature or softcap, and a product. Next to the one rounding
  /// to float32 they are nothing: in every bound that uses this there is room for one more.
  static constexpr Wide kConstant = std::is_same_v<Real, float> ? 1 : 5;

  /// Whole numbers up to here are exact.
  static constexpr Wide kWhole = static_cast<Wide>(1ULL << std::numeric_limits<Real>::digits);
};

/// A number that heed computes, and how far off it may be; an infinite bound: unspecified.
template <class Wide>
struct Bounded {
  Wide value;
  Wide bound;
};

template <class Wide>
inline constexpr Wide kInfinite = std::numeric_limits<Wide>::infinity();

template <class Wide>
inline constexpr Wide kLn2Of = static_cast<Wide>(0.693147180559945309417232121458176568L);
template <class Wide>
inline constexpr Wide kLog2EOf = static_cast<Wide>(1.442695040888963407359924681001892137L);

}  // namespace heed_test
