// Products and sums of numbers that are off by a known amount, as heed computes them: every
// operation adds its own rounding (oracle/rounding.hpp) to what its operands bring along.
//
// Infinities and NaN follow IEEE 754 as far as bounds allow: an infinity times what may be 0, or of
// either sign, is unspecified; so is what may overflow. 0 exactly times a number is 0 exactly,
// times an infinity NaN.
#pragma once

#include <cmath>
#include <limits>

#include "tests/oracle/rounding.hpp"

namespace heed_test {

template <class Wide>
inline constexpr Bounded<Wide> kUnbounded = {0, kInfinite<Wide>};
template <class Wide>
inline constexpr Bounded<Wide> kNotANumber = {std::numeric_limits<Wide>::quiet_NaN(), 0};

template <class Wide>
Bounded<Wide> exact(Wide x) {
  return {x, 0};
}

template <class Wide>
bool is_unspecified(const Bounded<Wide>& x) {
  return !std::isfinite(x.bound);
}
template <class Wide>
bool is_nan(const Bounded<Wide>& x) {
  return std::isnan(x.value) && !is_unspecified(x);
}
template <class Wide>
bool is_zero(const Bounded<Wide>& x) {
  return x.value == 0 && x.bound == 0;
}

/// x, off by `bound`; unspecified where heed may overflow.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> finite_or_unbounded(Wide x, Wide bound) {
  if (!(std::fabs(x) + bound < Arithmetic<Real>::kMax)) return kUnbounded<Wide>;
  return {x, bound};
}

/// value within bound, if heed's cannot overflow: an infinity or NaN that is there for sure is
/// exact.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> bounded(Wide value, Wide bound, Wide magnitude) {
  if (std::isinf(bound) || std::isnan(bound)) return kUnbounded<Wide>;
  if (!std::isfinite(value)) return {value, 0};
  if (!(magnitude + bound < Arithmetic<Real>::kMax)) return kUnbounded<Wide>;
  return {value, bound};
}

/// A constant that heed computes and rounds.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> constant(Wide c) {
  using A = Arithmetic<Real>;
  if (c == 0) return {0, 0};
  return finite_or_unbounded<Real>(c, gamma_of<Real>(A::kConstant) * std::fabs(c) + A::kUnderflow);
}

/// a b, rounded once.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> product(const Bounded<Wide>& a, const Bounded<Wide>& b) {
  using A = Arithmetic<Real>;
  if (is_nan(a) || is_nan(b)) return kNotANumber<Wide>;
  if (is_unspecified(a) || is_unspecified(b)) return kUnbounded<Wide>;
  if (std::isinf(a.value) || std::isinf(b.value)) {
    if (is_zero(a) || is_zero(b)) return kNotANumber<Wide>;
    const bool sure = std::fabs(a.value) > a.bound && std::fabs(b.value) > b.bound;
    return sure ? Bounded<Wide>{a.value * b.value, 0} : kUnbounded<Wide>;
  }
  if (is_zero(a) || is_zero(b)) return {0, 0};
  const Wide value = a.value * b.value;
  const Wide moved =
      std::fabs(a.value) * b.bound + a.bound * std::fabs(b.value) + a.bound * b.bound;
  return finite_or_unbounded<Real>(value,
                                   moved + A::kUnit * (std::fabs(value) + moved) + A::kUnderflow);
}

/// How products multiply that are summed.
struct Multiplied {
  bool pairs = false;   ///< of bfloat16
  bool rounds = false;  ///< to it, first
  Parts parts = {};     ///< or numbers as so many parts
};

/// A sum in any order: of n terms each sees n - 1 additions at most, gamma(n - 1), and zeros among
/// them change nothing. Products may be fused with additions, which only leaves roundings out.
///
/// Pairs of bfloat16 sum in an order of their own, and an empty sum and a bias come to it: two more
/// roundings at most. (AMX sums even and odd terms apart, and then both. BFDOT rounds to odd, which
/// loses twice as much, but half as often: once the two products of a pair, once their sum with the
/// others.) Subnormal factors and sums count as 0: |x w| < kSmallest (|x| + |w|), and kSmallest for
/// every sum. Where factors are rounded to bfloat16 first they are off by that. Parts of numbers
/// are pairs, too; what they leave out, and how many terms they make of one, rounding.hpp says.
template <class Real>
class BoundedSum {
 public:
  using Wide = typename Arithmetic<Real>::Wide;

  explicit BoundedSum(const Multiplied& as = {})
      : parts_(as.parts), pairs_(as.pairs || as.parts.count > 0) {}

  /// a b, multiplied as the sum says.
  void add(const Bounded<Wide>& a, const Bounded<Wide>& b) {
    Bounded<Wide> term = product<Real>(a, b);
    if (pairs_ && std::isfinite(term.value) && !is_unspecified(term)) {
      const Wide x = std::fabs(a.value) + a.bound;
      const Wide y = std::fabs(b.value) + b.bound;
      term.bound += left_out<Wide>(parts_) * x * y +
                    flushes_of<Wide>(parts_) * Arithmetic<Real>::kSmallest * (x + y + 1);
      more_ += terms_of<Wide>(parts_) - 1;
    }
    add(term);
  }

  void add(const Bounded<Wide>& term) { add(term, std::fabs(term.value) + term.bound); }

  /// A term that is itself a sum, of numbers whose sizes add up to `magnitude`.
  void add(const Bounded<Wide>& term, Wide magnitude) {
    if (is_nan(term)) {
      nan_ = true;
    } else if (is_unspecified(term)) {
      unspecified_ = true;
    } else if (std::isinf(term.value)) {
      (term.value > 0 ? above_ : below_) = true;
    } else if (!is_zero(term)) {
      terms_ += 1;
      value_ += term.value;
      bound_ += term.bound;
      magnitude_ += magnitude;
    }
  }

  /// With so many more roundings of every term: those that the terms are sums of, for example.
  Bounded<Wide> result(Wide roundings = 0) const {
    if (nan_) return kNotANumber<Wide>;
    if (unspecified_ || magnitude_ >= Arithmetic<Real>::kMax) return kUnbounded<Wide>;
    if (above_ && below_) return kNotANumber<Wide>;
    if (above_ || below_) return {above_ ? kInfinite<Wide> : -kInfinite<Wide>, 0};
    if (terms_ == 0) return {0, 0};
    const Wide n = terms_ - 1 + roundings + more_ + (pairs_ ? 2 : 0);
    if (n * Arithmetic<Real>::kUnit >= static_cast<Wide>(0.5)) return kUnbounded<Wide>;
    return finite_or_unbounded<Real>(value_, bound_ + gamma_of<Real>(n) * magnitude_);
  }

 private:
  Parts parts_;
  bool pairs_;
  Wide terms_ = 0;
  Wide more_ = 0;  ///< terms that products are made of
  Wide value_ = 0;
  Wide bound_ = 0;
  Wide magnitude_ = 0;
  bool nan_ = false;
  bool unspecified_ = false;
  bool above_ = false;
  bool below_ = false;
};

/// a + b, rounded once.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> sum(const Bounded<Wide>& a, const Bounded<Wide>& b) {
  BoundedSum<Real> both;
  both.add(a);
  both.add(b);
  return both.result();
}

}  // namespace heed_test
