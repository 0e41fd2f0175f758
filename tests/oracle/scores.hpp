// The score of one key in one row, step by step as heed.h lists them, and after every step how far
// off heed's may be. Real is heed's arithmetic, u its kUnit, D the number of features.
//
// heed computes scores times a unit: log2(e) / temperature for softmax, so that a weight is a power
// of two, and 1 for what it shows or hands to a score function. Every constant, such as
// scale * unit, sees at most kConstant roundings.
//
// Product. heed rounds c = scale * unit, then c q, and sums D products; one more rounding of Real
// is far more than all of this oracle's:
//
//     |score - t| <= gamma(kConstant + D + 2) |c| sum |q| |k|
//                  + kUnderflow (sum |q| |k| + sum |k| + D)             c, c q, products
//
// Where heed has computed q and k itself, off by e_q and e_k, these are sums over |q| + e_q and
// |k| + e_k, and the exact score of what it has lies away from t by
//
//     |c| sum (e_q |k| + |q| e_k + e_q e_k)
//
// Pairs of bfloat16. c = power * rest, |rest| < 2: the power of two multiplies q, which is exact,
// and rest the sum. Subnormal numbers count as 0 and become 0, kSmallest at most: power q, k, and
// each of the D sums, the first and the last times rest:
//
//     |score - t| <= the above + kSmallest (2 sum |k| + |c| sum |q| + 2 D)
//
// Where it rounds q and k to bfloat16 first, e_q = 2^-8 |q| + kSmallest, and so for k.
//
// Softcap. The product has c = 2 log2(e) scale / softcap, which is 2 log2(e) x; heed's
// factor * tanh(x), factor = softcap * unit, is within 4 ULP, 8 u, for the x that it is given, and
// tanh' = 1 / cosh^2 falls with |x|:
//
//     error <= factor (e / cosh^2(max(|x| - e, 0)))  +  gamma(kConstant + 9) |s|  +  underflow
//
// A term t = y z unit that is added (ALiBi: slope and distance, bias: 1) sees kConstant roundings
// of the constant, two of the product and one of the sum. Distances are exact below kWhole; past it
// the position, the key and their difference are rounded.
//
// A term far from 0 (kFarTerm) has all its bits: where a row's keys have the same, so have their
// scores, and what rounding it loses makes no difference among them. So t is the term as heed
// rounds it, bias and unit being Reals, and where s is less than a quarter of its last digit the
// score is t itself, error 0. (Of float64, whose unit the oracle does not know to the last digit, t
// may be off by kConstant - 1 more; terms of a row that are not equal are further apart than that.)
//
// Finite terms stay finite: what overflows, products and sums, counts as the end of the range.
//
// A score function gets scores in units of 1 and says itself what it makes of their errors; heed
// then multiplies by the rounded unit.
//
// Overflow. A score whose terms are all of one sign and sum up to more than any Real is an infinity
// of that sign; so is one that a single huge term takes there. Where terms of both signs overflow
// on the way nobody knows, and the error is infinite: tests assert that they never meet such a
// score by accident.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/oracle/bounded.hpp"
#include "tests/oracle/given.hpp"

namespace heed_test {

template <class Wide>
inline constexpr Wide kFarTerm = 1024;

/// <q, k>, and what its rounding depends on: sizes are those that numbers have at most.
template <class Wide>
struct Product {
  Wide sum;
  Wide magnitude;  ///< sum |q| |k|, of the finite terms
  Wide keys;       ///< sum |k|
  Wide largest;    ///< of the |q|
  bool finite;     ///< all q and k are
  Wide features;
  bool flushed = false;  ///< subnormal numbers count as 0
  Parts parts = {};      ///< that numbers are multiplied as
  Wide moved = 0;  ///< how far errors of q and k move the sum; infinite: nobody knows where to
};

/// An infinity times what may be 0, or of either sign, is nobody knows what; a NaN is NaN.
template <class Wide>
Product<Wide> product_of(const Bounded<Wide>* q, const Bounded<Wide>* k, Index features) {
  Product<Wide> p{0, 0, 0, 0, true, static_cast<Wide>(features)};
  bool exact = true;
  for (Index x = 0; x < features; ++x) {
    const Wide term = q[x].value * k[x].value;
    p.sum += term;
    p.magnitude += std::fabs(term);
    p.keys += std::fabs(k[x].value);
    p.largest = std::max(p.largest, std::fabs(q[x].value));
    exact = exact && q[x].bound == 0 && k[x].bound == 0;
  }
  // Not one of these is finite where a q or k is not, whatever the order of NaN and max.
  p.finite = std::isfinite(p.magnitude) && std::isfinite(p.keys);
  if (!p.finite) p.magnitude = p.keys = p.largest = 0;
  for (Index x = 0; !p.finite && x < features; ++x) {
    const Wide term = std::fabs(q[x].value * k[x].value);
    if (std::isfinite(term)) p.magnitude += term;
    if (std::isfinite(q[x].value)) p.largest = std::max(p.largest, std::fabs(q[x].value));
  }
  if (exact) return p;
  const auto vague = [](const Bounded<Wide>& a, Wide factor) {
    return std::isinf(a.bound) ||
           (std::isinf(factor) && a.bound > 0 && std::fabs(a.value) <= a.bound);
  };
  for (Index x = 0; x < features; ++x) {
    const Bounded<Wide>&a = q[x], &b = k[x];
    if (std::isnan(a.value) || std::isnan(b.value)) {
      p.moved = 0;
      return p;
    }
    if (vague(a, b.value) || vague(b, a.value)) p.moved = kInfinite<Wide>;
    if (!std::isfinite(a.value * b.value)) continue;
    const Wide moved =
        a.bound * std::fabs(b.value) + std::fabs(a.value) * b.bound + a.bound * b.bound;
    p.moved += moved;
    p.magnitude += moved;
    p.keys += b.bound;
    p.largest = std::max(p.largest, std::fabs(a.value) + a.bound);
  }
  return p;
}

/// The sum over features of weight(x) act(x), where act is off by its bound. Where an infinity
/// takes part, nothing is promised.
template <class Wide, class Weight, class Act>
Product<Wide> activated_product(Index features, Weight&& weight, Act&& act) {
  std::vector<Bounded<Wide>> weights, acts;
  for (Index x = 0; x < features; ++x) {
    weights.push_back({weight(x), 0});
    acts.push_back(std::isinf(weight(x)) ? Bounded<Wide>{0, kInfinite<Wide>} : act(x));
  }
  return product_of(weights.data(), acts.data(), features);
}

/// c <q, k>
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> scaled(const Product<Wide>& p, Wide c) {
  using A = Arithmetic<Real>;
  if (std::isinf(p.moved)) return kUnbounded<Wide>;
  const Wide magnitude = std::fabs(c) * p.magnitude;
  const Wide error =
      std::fabs(c) * p.moved +
      gamma_of<Real>(A::kConstant + terms_of<Wide>(p.parts) * p.features + 2) * magnitude +
      left_out<Wide>(p.parts) * magnitude + A::kUnderflow * (p.magnitude + p.keys + p.features) +
      (p.flushed ? flushes_of<Wide>(p.parts) * A::kSmallest *
                       (2 * p.keys + p.features * (std::fabs(c) * p.largest + 2))
                 : 0);
  const bool overflows =
      std::max(std::fabs(c), std::fabs(c) * p.largest) * (1 + gamma_of<Real>(A::kConstant + 2)) >=
      A::kMax;
  if (!p.finite) {  // the inputs' infinities and NaN, by the rules of IEEE 754
    if (std::isnan(p.sum)) return {p.sum, 0};
    if (overflows || magnitude + error >= A::kMax || std::fabs(c) < A::kSmallest)
      return kUnbounded<Wide>;
    return {c * p.sum, 0};
  }
  const Wide value = c * p.sum;
  if (!overflows && magnitude + error < A::kMax) return {value, error};
  const bool one_sign = magnitude <= std::fabs(value) * (1 + static_cast<Wide>(1e-12));
  if (one_sign && magnitude - error > A::kMax * (1 + A::kUnit))
    return {std::copysign(kInfinite<Wide>, value), 0};
  return kUnbounded<Wide>;
}

/// factor * tanh(scale <q, k> / softcap), factor = softcap * unit
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> capped(const Product<Wide>& p, Wide scale, Wide softcap, Wide unit) {
  using A = Arithmetic<Real>;
  const Wide twice = 2 * kLog2EOf<Wide>;
  const Bounded<Wide> t = scaled<Real>(p, twice * scale / softcap);
  if (is_unspecified(t) || std::isnan(t.value)) return t;
  const Wide x = t.value / twice;
  const Wide e = t.bound / twice;
  const Wide factor = softcap * unit;
  if (factor * (1 + gamma_of<Real>(A::kConstant + 9)) >= A::kMax) return kUnbounded<Wide>;
  const Wide value = factor * std::tanh(x);
  const Wide cosh = std::cosh(std::max(std::fabs(x) - e, Wide{0}));
  const Wide moved = factor * std::min(e / cosh / cosh, Wide{2});
  const Wide underflow = 8 * A::kUnderflow * (1 + factor);
  return {value, moved + gamma_of<Real>(A::kConstant + 9) * (std::fabs(value) + moved) + underflow};
}

/// A number that is converted to Real, and stays finite.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Wide as_real(double x) {
  const auto most = static_cast<double>(Arithmetic<Real>::kMax);
  if (std::isfinite(x)) x = std::min(std::max(x, -most), most);
  return static_cast<Wide>(static_cast<Real>(x));
}

/// What a finite score past the range of Real counts as.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Wide end_of_range(Wide x) {
  return x < 0 ? -Arithmetic<Real>::kMax : Arithmetic<Real>::kHighest;
}

/// A finite score, where it is sure that it is past the range, or else a bound that allows both.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> held(Wide value, Wide error) {
  using A = Arithmetic<Real>;
  if (std::fabs(value) + error < A::kMax) return {value, error};
  const Wide end = end_of_range<Real>(value);
  if (std::fabs(value) - error > A::kMax * (1 + A::kUnit)) return {end, 0};
  return {end, 2 * error + 4 * A::kUnit * A::kMax};
}

/// s + term, where term is y z unit, and y finite.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> plus(const Bounded<Wide>& s, Wide term) {
  using A = Arithmetic<Real>;
  if (is_unspecified(s) || !std::isfinite(s.value)) return s;
  const Wide rounding = gamma_of<Real>(A::kConstant + 2) * std::fabs(term) + 2 * A::kUnderflow;
  const Wide terms = s.bound + rounding;
  const Wide value = s.value + term;
  return held<Real>(value, terms + A::kUnit * (std::fabs(value) + terms));
}

/// s + t, where t is what heed adds, far from 0.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> plus_far(const Bounded<Wide>& s, Wide t) {
  using A = Arithmetic<Real>;
  if (is_unspecified(s) || !std::isfinite(s.value)) return s;
  if (std::fabs(s.value) + s.bound < std::fabs(t) * A::kUnit / 4) return {t, 0};
  const Wide value = s.value + t;
  return held<Real>(value, s.bound + A::kUnit * (std::fabs(value) + s.bound));
}

/// s + bias * unit. No finite bias masks a key.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> plus_bias(const Bounded<Wide>& s, Wide bias, Wide unit) {
  using A = Arithmetic<Real>;
  if (std::isinf(bias) && unit == 0) return kUnbounded<Wide>;  // +inf / inf
  const Wide term = bias * unit;
  if (!std::isfinite(bias)) return is_unspecified(s) ? s : Bounded<Wide>{s.value + term, 0};
  if (std::fabs(term) < kFarTerm<Wide>) return plus<Real>(s, term);
  if (std::fabs(term) > A::kMax * (1 + A::kUnit))
    return plus_far<Real>(s, end_of_range<Real>(term));
  const auto t =
      static_cast<Wide>(static_cast<Real>(bias * static_cast<Wide>(static_cast<Real>(unit))));
  if (!std::isfinite(t)) return plus_far<Real>(s, end_of_range<Real>(term));
  const Bounded<Wide> sum = plus_far<Real>(s, t);
  if (sum.bound == 0 || unit == 1) return sum;
  return {sum.value, sum.bound + gamma_of<Real>(A::kConstant - 1) * std::fabs(t)};
}

/// s * unit
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> times(const Bounded<Wide>& s, Wide unit) {
  using A = Arithmetic<Real>;
  if (is_unspecified(s) || std::isnan(s.value) || s.value == -kInfinite<Wide>) return s;
  if (std::isinf(s.value)) return unit > 0 ? s : kUnbounded<Wide>;
  const Wide value = s.value * unit;
  const Wide moved = s.bound * unit;
  const Wide error = moved + gamma_of<Real>(A::kConstant + 2) * (std::fabs(value) + moved) +
                     A::kUnderflow * (1 + std::fabs(s.value));
  return held<Real>(value, error);
}

template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> changed(const Bounded<Wide>& s, const ScoreModel& function, const Place& at) {
  const auto result = function({s.value, s.bound}, at, Arithmetic<Real>::kUnit);
  return {static_cast<Wide>(result.value), static_cast<Wide>(result.bound)};
}

}  // namespace heed_test
