// The weights of one row and how far off heed's may be. Scores are in log2 units; Real is heed's
// arithmetic, u its kUnit, and n the number of keys, the sink being one of them.
//
// 1. Score j, t_j exactly, is off by E_j: see scores.hpp.
//
// 2. Weights. weight = exp2(score - row_max), where row_max is a score that some key had. The
//    difference is one more rounding, off by u |score - row_max|. exp2 is within 1 ULP, a
//    factor 1 + 2 u.
//
// 3. Lazy rescaling. row_max is lazy: it moves up, to the score, when a score outgrows it by 8, so
//    that no weight exceeds 2^8. Let M be the largest exact score, and G = max_j (t_j + E_j) - M
//    how much higher heed may see it: row_max never exceeds M + G. Where score j becomes a weight,
//
//        t_j - 8 - E_j <= row_max <= M + G
//
//    A move multiplies what was summed so far by exp2(old - new): its exponent is off by
//    u (new - old), its value by 1 + 2 u, the product by 1 + u, and a sum that it ends early is one
//    more addition. From key j on the moves add up to at most M + G - row_max. So the exponent's
//    errors that grow with distance are, together, at most u T_j with
//
//        T_j = |score_j - row_max| + M + G - row_max <= M - t_j + G + 2 (8 + E_j)
//
//    A move is a rise by 8, or where numbers lie further apart than that, to the next
//    one; never by less than 4. Each takes a key: there are at most min(n, T_j / 4). Decoding adds
//    one, of any size, where chunks are merged: m_j = min(n, T_j / 4) + 1.
//
// 4. Sums. The denominator and each numerator are sums of n terms, taken in levels: over a step of
//    at most 128 keys (or edges), over the steps until sums are folded into totals, 256 at most,
//    and over totals, one every 4096 keys, or over chunks of 1024. A term sees N = min(n, 386 + n /
//    1024) additions at most: gamma(N). Altogether a term p_j of the softmax is off by a factor 1 +
//    a_j at most, in the numerator and in the denominator alike:
//
//        1 + a_j = 2^(E_j + u T_j) (1 + 4 u)^(m_j + 1) (1 + gamma(N))
//
// 5. Underflow. exp2 is 0 below the smallest normal number (2^-126 in float32), and a weight of at
//    most 2^8 times such a factor is lost in a move: 2^8 kSmallest for a weight and each of at most
//    n moves. The exact denominator in these units is at least 2^-G, since row_max never exceeds M
//    + G. Products that underflow lose kUnderflow each.
//
// 6. The quotient of a numerator and a denominator that is off by a factor 1 + b,
//    b = sum p_j a_j + lost weights:
//
//        |o' - o| <= (sum p_j a_j |v_j| + lost + b |o|) / (1 - b)
//
//    and the reciprocal and the product at the end round twice: gamma(2) (|o| + that). Values that
//    are off by e_j themselves move o by sum p_j e_j, and are at most |v_j| + e_j in all of this.
//
// 7. A sink is a key with the score sink * log2(e), the first of all, and the value 0.
//
// 8. Log-sum-exp. heed's denominator and row_max stand for the exact sum times 1 + b at most, so
//    that the logarithm is off by -log(1 - b). ln2 * row_max + log(sum), in float64, adds eight
//    of its roundings at most (ln2, the product, the logarithm and the sum), of numbers no larger
//    than |lse| + 2 |log(sum)|; and since row_max is at least M - 8 - E, the sum is between
//    2^-G and n 2^(8 + E + G), E of the largest score.
//
// 9. Probabilities are computed again, exp2(score - row_max) * (1 / sum) with the last row_max
//    and sum. In a_j nothing is missing then, and lost is what one exp2 loses:
//
//        |p' - p| <= (p_j a_j + kSmallest 2^G + b p_j) / (1 - b), rounded twice
//
// 10. Pairs of bfloat16. Weights are rounded to 8 bits, off by a factor 1 + 2^-8, before they meet
//    values or are summed: 1 + a_j has one more factor. Subnormal numbers count as 0 and become 0:
//    a value loses kSmallest at most, and so does each of the two sums that a weight is added to,
//    in units in which the denominator is at least 2^-G.
//
// 11. Parts of bfloat16 (rounding.hpp). Weights are summed as they are; what meets values lacks
//    left_out(). A numerator is one chain of products until sums are folded, every 4096 keys, so
//    that a term sees weighted_terms_of() min(n, 4096) additions more than N. Subnormal numbers are
//    lost as of pairs, flushes_of() times.
//
// No bound holds where heed overflows on the way, that is, where 2^8 sum |v| does: then the bound
// is infinite, and tests assert that they never meet such an element by accident.
#pragma once

#include <cmath>
#include <vector>

#include "tests/oracle/bounded.hpp"
#include "tests/oracle/element.hpp"
#include "tests/oracle/inputs.hpp"
#include "tests/oracle/rounding.hpp"
#include "tests/oracle/scores.hpp"

namespace heed_test {

/// The softmax of one row: weights p_j, their relative errors a_j, and what is lost.
template <class Wide>
struct Softmax {
  std::vector<Wide> weight = {};
  std::vector<Wide> error = {};
  Wide denominator_error = 0;  ///< b
  Wide lost = 0;               ///< per key, in a sum
  Wide lost_alone = 0;         ///< in a probability
  Wide flushed = 0;            ///< of a sum of values, see 10
  Wide lse = -kInfinite<Wide>;
  Wide lse_error = 0;
};

/// A row whose scores are all -inf, or that attends nothing.
template <class Wide>
Softmax<Wide> softmax_of_nothing(std::size_t keys) {
  Softmax<Wide> softmax;
  softmax.weight.assign(keys, 0);
  softmax.error.assign(keys, 0);
  return softmax;
}

/// Scores of +inf share the weight evenly.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Softmax<Wide> softmax_of_infinities(const std::vector<Bounded<Wide>>& scores) {
  Softmax<Wide> softmax;
  Wide count = 0;
  for (const auto& s : scores) count += s.value == kInfinite<Wide> ? 1 : 0;
  const Wide rounding = gamma_of<Real>(static_cast<Wide>(scores.size()));
  for (const auto& s : scores) {
    softmax.weight.push_back(s.value == kInfinite<Wide> ? 1 / count : 0);
    softmax.error.push_back(rounding);
  }
  softmax.denominator_error = rounding;
  softmax.lse = kInfinite<Wide>;
  return softmax;
}

/// How far apart a score and row_max can lie, see 3.
template <class Wide>
struct Reach {
  Wide largest;  ///< M
  Wide growth;   ///< G
  Wide keys;     ///< n

  Wide additions() const { return std::min(keys, 386 + keys / 1024); }  ///< N
};

/// a_j, see 2 to 4.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Wide weight_error(const Bounded<Wide>& s, const Reach<Wide>& reach) {
  const Wide u = Arithmetic<Real>::kUnit;
  const Wide travel = reach.largest - s.value + reach.growth + 2 * (8 + s.bound);
  const Wide moves = std::min(reach.keys, travel / 4) + 1;
  const Wide rounding =
      std::log1p(4 * u) * (moves + 1) + std::log1p(gamma_of<Real>(reach.additions()));
  return std::expm1(kLn2Of<Wide> * (s.bound + u * travel) + rounding);
}

/// See 8.
template <class Wide>
Wide lse_error(const Softmax<Wide>& softmax, const Bounded<Wide>& top, const Reach<Wide>& reach) {
  const Wide b = softmax.denominator_error;
  if (!(b < 1)) return kInfinite<Wide>;
  const Wide log_sum = kLn2Of<Wide> * (8 + top.bound + reach.growth) + std::log(reach.keys);
  return -std::log1p(-b) + 8 * static_cast<Wide>(0x1p-53) * (std::fabs(softmax.lse) + 2 * log_sum);
}

/// Finite scores, or -inf, the largest of them finite.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Softmax<Wide> softmax_of_finite(const std::vector<Bounded<Wide>>& scores, const Bounded<Wide>& top,
                                bool pairs, Parts parts) {
  Softmax<Wide> softmax;
  Wide sum = 0;
  Wide seen = top.value;
  for (const auto& s : scores) {
    softmax.weight.push_back(std::exp2(s.value - top.value));
    sum += softmax.weight.back();
    seen = std::max(seen, s.value + s.bound);
  }
  const Reach<Wide> reach = {top.value, seen - top.value, static_cast<Wide>(scores.size())};
  softmax.lost_alone = Arithmetic<Real>::kSmallest * std::exp2(reach.growth);
  softmax.lost = 256 * (reach.keys + 1) * softmax.lost_alone;
  if (pairs || parts.count > 0)
    softmax.flushed = flushes_of<Wide>(parts) *
                      (2 * reach.keys * softmax.lost_alone + Arithmetic<Real>::kSmallest);
  softmax.denominator_error = reach.keys * softmax.lost;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    Wide& p = softmax.weight[j];
    p /= sum;
    const Wide error = weight_error<Real>(scores[j], reach);
    const Wide chain =
        weighted_terms_of<Wide>(parts) * std::min(reach.keys, static_cast<Wide>(4096));
    const Wide rounding = pairs             ? static_cast<Wide>(0x1p-8)
                          : parts.count > 0 ? left_out<Wide>(parts) + gamma_of<Real>(chain)
                                            : 0;
    softmax.error.push_back(p == 0 ? 0 : error + rounding + error * rounding);
    softmax.denominator_error += p * softmax.error[j];
  }
  softmax.lse = kLn2Of<Wide> * top.value + std::log(sum);
  softmax.lse_error = lse_error(softmax, top, reach);
  return softmax;
}

template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Softmax<Wide> softmax_of(const std::vector<Bounded<Wide>>& scores, bool pairs = false,
                         Parts parts = {}) {
  Bounded<Wide> top = {-kInfinite<Wide>, 0};
  for (const auto& s : scores)
    if (s.value > top.value) top = s;
  if (top.value == kInfinite<Wide>) return softmax_of_infinities<Real>(scores);
  if (top.value == -kInfinite<Wide>) return softmax_of_nothing<Wide>(scores.size());
  return softmax_of_finite<Real>(scores, top, pairs, parts);
}

/// sum of p_j v_j, see 6; `value_of(j)` for j < keys is the value of weight j and its own error.
template <class Real, class ValueOf, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> weighted_sum(const Softmax<Wide>& softmax, std::size_t keys, ValueOf&& value_of) {
  Wide sum = 0;
  Wide error = 0;
  Wide moved = 0;
  Wide magnitude = 0;
  bool lost_infinity = false;
  for (std::size_t j = 0; j < keys; ++j) {
    const Bounded<Wide> given = value_of(j);
    const Wide v = given.value;
    const Wide size = std::fabs(v) + given.bound;
    if (std::isinf(given.bound)) return {0, kInfinite<Wide>};
    // 0 times infinity: how small a weight is no 0 depends on the moves.
    const bool lost = std::isinf(v) && softmax.weight[j] < static_cast<Wide>(0x1p-60);
    lost_infinity = lost_infinity || lost;
    if (!lost) sum += softmax.weight[j] * v;
    error += softmax.weight[j] * softmax.error[j] * size;
    moved += softmax.weight[j] * given.bound;
    magnitude += size;
  }
  if (std::isnan(sum)) return {sum, 0};
  if (lost_infinity) return {sum, kInfinite<Wide>};
  if (!std::isfinite(magnitude)) return {sum, 0};
  using A = Arithmetic<Real>;
  const Wide b = softmax.denominator_error;
  if (!(b < 1) || 257 * magnitude >= A::kMax) return {sum, kInfinite<Wide>};
  const Wide lost =
      softmax.lost * magnitude + 2 * static_cast<Wide>(keys) * A::kUnderflow + softmax.flushed;
  const Wide size = std::fabs(sum) + moved;
  const Wide quotient = (error + lost + b * size) / (1 - b);
  return {sum, moved + quotient + gamma_of<Real>(2) * (size + quotient) + A::kUnderflow};
}

/// p_j as it is shown, see 9.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> probability(const Softmax<Wide>& softmax, std::size_t j) {
  const Wide p = softmax.weight[j];
  const Wide b = softmax.denominator_error;
  if (!(b < 1)) return {p, kInfinite<Wide>};
  const Wide quotient = (p * softmax.error[j] + softmax.lost_alone + b * p) / (1 - b);
  return {p, quotient + gamma_of<Real>(2) * (p + quotient) + Arithmetic<Real>::kUnderflow};
}

/// 2^(t - l), the weight that a log-sum-exp says, l in log2 units and off by `moved`; `kept` is
/// what rounding its constant depends on. See backward_row.hpp, 1.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> weight_by_lse(const Bounded<Wide>& t, Wide l, Wide moved, Wide kept) {
  using A = Arithmetic<Real>;
  const Wide away = t.value - l;
  const Wide given = t.bound + moved + gamma_of<Real>(A::kConstant + 2) * kept;
  const Wide error = given + A::kUnit * (std::fabs(away) + given);
  if (!(away + error < std::numeric_limits<Real>::max_exponent - 1)) return kUnbounded<Wide>;
  const Wide p = std::exp2(away);
  const Wide factor = std::expm1(kLn2Of<Wide> * error + std::log1p(2 * A::kUnit));
  return finite_or_unbounded<Real>(p, p * factor + A::kSmallest);
}

}  // namespace heed_test
