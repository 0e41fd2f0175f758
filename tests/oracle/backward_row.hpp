// One query row on its way back: what each pair of the row passes on to queries, keys, values and
// to everything that scores are made of, and how far off heed's may be. Real is heed's arithmetic,
// u its kUnit; every product and sum rounds as oracle/bounded.hpp says.
//
// 1. The weight is p = 2^(t - l), with the score t off by E (scores.hpp) and l = lse log2(e). lse
// is
//    given: converted to Real and multiplied with a constant it is off by gamma(kConstant + 2) |l|,
//    and the difference rounds once more. exp2 is within 1 ULP, a factor 1 + 2 u, and 0 below the
//    smallest normal number:
//
//        |p' - p| <= p (2^(E + E_l + u |t - l|) (1 + 2 u) - 1) + kSmallest
//
//    Where lse has lost digits (kFarLse) weights are those of softmax.hpp, 9, which heed sums again
//    from the scores that it computes; gamma(8 + |log2 p|) for what is subtracted and divided
//    apart. Past 2^20 a float32 score first loses a float32, of which it is the difference that
//    rounds.
//    Of few rows (kFewRows), which the forward run may multiply in another order, heed does so also
//    where S = |c| |q| max |k| > kFarLse, c as in scores.hpp: products are off by gamma(D + 4) S
//    each. Then it may take the log-sum-exp of its own scores, if that is no further from lse than
//    twice as much, by which l moves.
//
// 2. <grad_out, value> - delta, delta = <grad_out, out> - grad_lse, is a sum of 2 Dv products and
//    one number, in whatever order they are added (bounded.hpp); grad_lse sees its conversion
//    besides. The bound is relative to the sizes of the terms, so it holds where they cancel. In a
//    block heed has computed values, out and grad_out itself, and an lse that is off by e moves l
//    by e log2(e).
//
// 3. The gradient of z = s / temperature is the product of both; times the derivative of the score
//    function, which says itself how far off it is for a score that is off, it is that of s, times
//    temperature. What is left, scale and temperature, is one constant, which sums are multiplied
//    with last: where it is too small for a Real, it is 0, and infinities become NaN.
//
// 4. Softcap: 1 - tanh^2, with heed's tanh off by e (scores.hpp, of a cap times unit of 1), is off
//    by 2 |tanh| e + e^2, and three operations at most: on 1 and tanh^2, or those of (1 - tanh)
//    (1 + tanh).
//
// 5. Pairs of bfloat16. Scores are off as scores.hpp says of them, and of the products in 2
//    subnormal numbers count as 0, as sums that are subnormal become: a product of a and b moves by
//    kSmallest (|a| + |b|) at most where one of them is subnormal, and each of the sums by
//    kSmallest. What meets queries, keys and grad_out is rounded to bfloat16 first: it is off by
//    2^-8 of itself and kSmallest, while bias, slopes, sinks and temperature see it as it was. Both
//    kinds of sums go on in float32.
//
// What is not finite: a row whose lse is -inf passes on zeros, one whose lse is +inf or NaN
// passes NaN on to all that it attends. A score of +inf beside any other lse, which no forward run
// leaves there, is more than exp2 is made for: nobody knows. Otherwise IEEE 754. A weight that is 0
// because the score is -inf is 0 exactly.
#pragma once

#include <cmath>

#include "tests/oracle/gradient.hpp"
#include "tests/oracle/head.hpp"
#include "tests/oracle/softmax.hpp"

namespace heed_test {

/// What is given of one row, besides its query.
template <class Wide>
struct RowGiven {
  const Bounded<Wide>* grad_out;
  const Bounded<Wide>* out;
  Bounded<Wide> lse;
  Wide grad_lse;
};

/// What one pair passes on.
template <class Wide>
struct PairGradient {
  Bounded<Wide> weight;   ///< p
  Bounded<Wide> scaled;   ///< the gradient of z = s / temperature
  Bounded<Wide> biased;   ///< of s before the score function: what bias and ALiBi get; times
                          ///< temperature, as the next
  Bounded<Wide> product;  ///< of scale <q, k>
};

/// What sums of gradients `biased` are multiplied with, and those of `product`.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> factor_of_biased(const Head<Real>& head) {
  return constant<Real>(head.softmax_unit() / kLog2EOf<Wide>);
}
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> factor_of_product(const Head<Real>& head) {
  return constant<Real>(head.scale() * (head.softmax_unit() / kLog2EOf<Wide>));
}

template <class Real>
class BackwardRow {
 public:
  using Wide = typename Arithmetic<Real>::Wide;
  using Number = Bounded<Wide>;

  BackwardRow(const Head<Real>& head, Index i, Index width, const RowGiven<Wide>& given,
              const ScoreModel& derivative)
      : head_(head), i_(i), width_(width), given_(given), derivative_(derivative) {
    minus_delta_.add(exact(given.grad_lse));
    for (Index x = 0; x < width; ++x)
      minus_delta_.add({-given.grad_out[x].value, given.grad_out[x].bound}, given.out[x]);
    const bool float32 = dtype_of(head.desc().lse.dtype, real_dtype(head.desc())) == HEED_DTYPE_F32;
    if (std::fabs(given.lse.value) > (float32 ? kFarLse<float> : kFarLse<double>)) weigh_again();
    apart_ = found_apart();
  }

  const Bounded<Wide>& grad_out(Index x) const { return given_.grad_out[x]; }

  // See 5.

  /// What a gradient or a weight becomes before it meets rows.
  Number rounded(const Number& x) const {
    if (!head_.pairs() || !std::isfinite(x.value) || is_unspecified(x) || is_zero(x)) return x;
    return finite_or_unbounded<Real>(
        x.value, x.bound + static_cast<Wide>(0x1p-8) * (std::fabs(x.value) + x.bound) + kTiny);
  }
  /// sums[x] += factor with(x)
  template <class With>
  void add_to(BoundedSum<Real>* sums, Index features, const Number& factor, With&& with) const {
    for (Index x = 0; x < features; ++x) {
      Number number = with(x);
      if (head_.pairs()) number.bound += flushed(number.value);
      Number term = product<Real>(factor, number);
      if (head_.pairs() && !is_zero(term)) term.bound += 2 * kTiny;
      sums[x].add(term);
    }
  }

  /// A weight that is dropped passes nothing on to its value.
  PairGradient<Wide> pair(Index j) const {
    PairGradient<Wide> g = weighed(j);
    if (head_.dropped(i_, j)) g.weight = {0, 0};
    if (head_.desc().dropout != 0) g.weight = product<Real>(g.weight, unit_over_kept());
    return g;
  }

 private:
  PairGradient<Wide> weighed(Index j) const {
    const Wide unit = head_.softmax_unit();
    const Bounded<Wide> score = head_.full_score(i_, j, unit);
    if (is_unspecified(given_.lse)) return {unknown(), unknown(), unknown(), unknown()};
    if (nothing()) return of_nothing(score, j);
    PairGradient<Wide> g{};
    const bool finite = std::isfinite(given_.lse.value);
    g.weight =
        finite ? weight(score, number_.empty() ? 0 : number_[static_cast<std::size_t>(j)]) : nan();
    if (is_unspecified(score) && !finite) return {nan(), unknown(), unknown(), unknown()};
    if (score.value == -kInfinite<Wide> && !is_unspecified(score)) return g;
    if (!finite) return {nan(), nan(), nan(), nan()};
    g.scaled = product<Real>(g.weight, gradient_of_weight(j));
    // What has no weight has no gradient where a score function is asked for its derivative.
    if (derivative_ && !std::isfinite(g.scaled.value) && g.weight.value <= g.weight.bound)
      g.scaled = unknown();
    g.biased = derivative_ ? product<Real>(g.scaled, slope(j)) : g.scaled;
    g.product = head_.desc().softcap == 0 ? g.biased : product<Real>(g.biased, slope_of_cap(j));
    return g;
  }

  Number unit_over_kept() const { return constant<Real>(1 / head_.kept()); }

 public:
  /// -p_sink delta
  Number sink() const {
    if (is_unspecified(given_.lse)) return unknown();
    if (nothing()) return {0, 0};
    if (!std::isfinite(given_.lse.value)) return nan();
    return product<Real>(weight(head_.sink(), again_.weight.size() - 1), minus_delta_.result(4));
  }

  /// -(gradient of z) z, which is temperature times that of temperature
  Number temperature(Index j, const PairGradient<Wide>& g) const {
    const Wide unit = head_.softmax_unit();
    const Bounded<Wide> t = head_.full_score(i_, j, unit);
    if (is_unspecified(t)) return unknown();
    if (t.value == -kInfinite<Wide> || is_zero(g.scaled)) return {0, 0};
    if (!std::isfinite(given_.lse.value)) return nan();
    const Number z = product<Real>({-t.value, t.bound}, constant<Real>(1 / kLog2EOf<Wide>));
    return product<Real>(g.scaled, z);
  }

 private:
  static constexpr Wide kTiny = Arithmetic<Real>::kSmallest;
  static Wide flushed(Wide x) { return std::fabs(x) < kTiny ? std::fabs(x) : 0; }

  static Number nan() { return kNotANumber<Wide>; }
  static Number unknown() { return kUnbounded<Wide>; }

  /// Whether lse says that the row attends nothing.
  bool nothing() const { return given_.lse.value == -kInfinite<Wide>; }

  /// Zeros, but where the scores do not go with that, or are multiplied with NaN and infinities.
  PairGradient<Wide> of_nothing(const Bounded<Wide>& score, Index j) const {
    const Number gradient = gradient_of_weight(j);
    const bool zero = score.value == -kInfinite<Wide> ||
                      (std::isfinite(score.value) && std::isfinite(gradient.value));
    if (zero && !is_unspecified(score)) return {};
    return {unknown(), unknown(), unknown(), unknown()};
  }

  /// How far the log-sum-exp may move in log2 units where products are large, see 1.
  Wide found_apart() const {
    const heed_attention_desc& d = head_.desc();
    const Index few = kFewRows<Real> * key_heads_of(d);
    if (!head_.is_dot() || head_.sequence().queries * d.query_heads > few) return 0;
    const auto size = [&](auto&& number) {
      Wide sum = 0;
      for (Index x = 0; x < d.features; ++x) {
        const Number n = number(x);
        sum += (std::fabs(n.value) + n.bound) * (std::fabs(n.value) + n.bound);
      }
      return std::sqrt(sum);
    };
    Wide largest = 0;
    for (Index j = 0; j < head_.sequence().keys; ++j)
      if (head_.attends(i_, j))
        largest = std::max(largest, size([&](Index x) { return head_.key(j, x); }));
    const Wide most = std::fabs(head_.scale() * head_.softmax_unit()) * largest *
                      size([&](Index x) { return head_.query(i_, x); });
    // heed's is off, too.
    return std::isfinite(most) && most * (1 + gamma_of<Real>(8)) > kFarLse<Real>
               ? 2 * gamma_of<Real>(static_cast<Wide>(d.features) + 4) * most
               : 0;
  }

  /// The softmax of the row, where lse has lost too many digits.
  void weigh_again() {
    std::vector<Bounded<Wide>> scores;
    const Index keys = head_.sequence().keys;
    number_.assign(static_cast<std::size_t>(keys), 0);
    for (Index j = 0; j < keys; ++j) {
      if (!head_.attends(i_, j)) continue;
      number_[static_cast<std::size_t>(j)] = scores.size();
      scores.push_back(head_.full_score(i_, j, head_.softmax_unit()));
    }
    if (head_.has_sink()) scores.push_back(head_.sink());
    for (const auto& s : scores)
      if (is_unspecified(s) || !(s.value < kInfinite<Wide>)) return;
    again_ = softmax_of<Real>(scores);
  }

  /// See 1; the n-th of the scores that are weighed again.
  Number weight(const Bounded<Wide>& t, std::size_t n) const {
    using A = Arithmetic<Real>;
    if (is_unspecified(t)) return unknown();
    if (std::isnan(t.value)) return nan();
    if (t.value == -kInfinite<Wide>) return {0, 0};
    if (std::isinf(t.value)) return unknown();
    if (!again_.weight.empty()) {
      const Number p = probability<Real>(again_, n);
      const Wide rounding =
          gamma_of<Real>(8 + (again_.weight[n] > 0 ? -std::log2(again_.weight[n]) : 0));
      return finite_or_unbounded<Real>(p.value,
                                       p.bound + rounding * (p.value + p.bound) + A::kSmallest);
    }
    const Wide l = given_.lse.value * kLog2EOf<Wide>;
    const Wide l_moved = given_.lse.bound * kLog2EOf<Wide> + apart_;
    // Past kMostWhole it comes off scores in two numbers, of which the second is small.
    const bool far = std::is_same_v<Real, float> && std::fabs(l) > (1 << 20);
    const Wide kept = far ? 8 + std::fabs(l) * static_cast<Wide>(0x1p-26) : std::fabs(l);
    if (!(std::fabs(l) < A::kMax / 2)) return unknown();
    return weight_by_lse<Real>(t, l, l_moved, kept + l_moved);
  }

  /// See 2.
  Number gradient_of_weight(Index j) const {
    BoundedSum<Real> sum = minus_delta_;
    const Index width = head_.dropped(i_, j) ? 0 : width_;
    for (Index x = 0; x < width; ++x) {
      const Number a = given_.grad_out[x];
      const Number b = head_.value(j, x);
      Number term = product<Real>(a, b);
      if (head_.pairs() && std::isfinite(term.value))
        term.bound += flushed(a.value) * std::fabs(b.value) +
                      flushed(b.value) * std::fabs(a.value) + 2 * kTiny;
      sum.add(head_.desc().dropout == 0 ? term : product<Real>(term, unit_over_kept()));
    }
    return sum.result(4);
  }

  /// The derivative of the score function.
  Number slope(Index j) const {
    const Number found = head_.biased_score(i_, j, 1);
    return is_unspecified(found) ? found : changed<Real>(found, derivative_, head_.place(i_, j));
  }

  Number slope_of_cap(Index j) const {
    return cap_slope<Real>(head_.capped_score(i_, j, 1 / static_cast<Wide>(head_.desc().softcap)));
  }

  const Head<Real>& head_;
  const Index i_;
  const Index width_;
  const RowGiven<Wide> given_;
  const ScoreModel& derivative_;
  BoundedSum<Real> minus_delta_;
  Wide apart_ = 0;
  Softmax<Wide> again_;              ///< of the attended keys, and last of the sink; else empty
  std::vector<std::size_t> number_;  ///< of every key among these
};

}  // namespace heed_test
