#include "tests/oracle/backward.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/oracle/backward_row.hpp"

namespace heed_test {
namespace {

template <class Real>
class Oracle {
  using Wide = typename Arithmetic<Real>::Wide;
  using Row = BackwardRow<Real>;
  using Numbers = std::vector<Bounded<Wide>>;

 public:
  explicit Oracle(const BackwardGiven& given)
      : given_(given),
        forward_{given.desc,
                 given.args,
                 given.function,
                 given.inside == nullptr ? nullptr : &given.inside->projections,
                 {},
                 given.pairs},
        d_(given.desc),
        heads_(d_.query_heads),
        key_heads_(key_heads_of(d_)),
        width_(value_features_of(d_)),
        packed_q_(d_.packed_queries > 0),
        packed_k_(d_.packed_keys > 0) {
    const Index queries = packed_q_ ? d_.packed_queries : d_.query_length;
    for (std::size_t of = 0; of < kGradients; ++of) {
      const bool packed = of == kGradQuery ? packed_q_ : of <= kGradValue && packed_k_;
      gradients_[of] = {given.gradients.of[of], !packed};
    }
    out_ = source_of(given.args.out, d_.out, heads_, queries, width_, packed_q_);
    lse_ = source_of(given.args.lse, d_.lse, heads_, queries, 1, false);  // packed: [head, row]
    lse_.dtype = dtype_of(d_.lse.dtype, real_dtype(d_));
  }

  ExpectedGradients run() {
    std::array<Bounded<Wide>, kGradients> factors;
    factors.fill({1, 0});
    for (Index b = 0; b < d_.batch; ++b) {
      mark(b);
      for (Index h = 0; h < heads_; ++h) {
        const Head<Real> head(forward_, b, h);
        for (const GradientOf of : {kGradBias, kGradSlopes, kGradScale, kGradTemperature})
          factors[of] = factor_of_biased(head);
        for (const GradientOf of : {kGradQuery, kGradKey, kGradScoreWeights})
          factors[of] = factor_of_product(head);
        for (Index i = 0; i < head.sequence().queries; ++i) add_row(head, h, i);
      }
    }
    // The products of grad_scale may be summed over features last.
    ExpectedGradients expected;
    for (std::size_t of = 0; of < kGradients; ++of) {
      const bool sums = of == kGradScale || d_.score == HEED_SCORE_COSINE;
      const Wide features = sums ? static_cast<Wide>(d_.features) : 0;
      const bool inside = given_.inside != nullptr && of <= kGradValue;
      expected[of] =
          gradients_[of].elements(factors[of], kGradientRoundings<Real> + features,
                                  given_.gradients.accumulate && !inside, real_dtype(d_));
    }
    return expected;
  }

 private:
  // ---- Rows ----

  /// Packed rows of a sequence, of all heads.
  void mark(Index b) {
    const Sequence s = sequence_of(d_, forward_.args, b);
    for (Index h = 0; packed_q_ && h < heads_; ++h)
      for (Index i = 0; i < s.queries; ++i) gradients_[kGradQuery].mark(0, h, s.first_query + i);
    const auto end = static_cast<std::size_t>(b) + 1;
    for (Index g = 0; packed_k_ && g < key_heads_; ++g)
      for (Index j = s.first_key; j < forward_.args.cu_seqlens_k[end]; ++j) {
        gradients_[kGradKey].mark(0, g, j);
        gradients_[kGradValue].mark(0, g, j);
      }
  }

  void add_row(const Head<Real>& head, Index h, Index i) {
    const Sequence& s = head.sequence();
    const Index b = packed_q_ ? 0 : s.batch;
    const Index line = s.first_query + i;
    const BlockInside* const inside = given_.inside;
    const auto row_of = [&](auto&& number) {
      Numbers row;
      for (Index x = 0; x < width_; ++x) row.push_back(number(x));
      return row;
    };
    const auto element = [](const Element& e) {
      return Bounded<Wide>{static_cast<Wide>(e.value), static_cast<Wide>(e.bound)};
    };
    const auto at = [&](const Source& from, Index x) {
      return Bounded<Wide>{static_cast<Wide>(from.at(b, h, line, x)), 0};
    };
    const Index rows = packed_q_ ? d_.packed_queries : d_.query_length;
    const auto place = static_cast<std::size_t>((b * heads_ + h) * rows + line);
    const Numbers grad_out = row_of([&](Index x) {
      if (inside == nullptr) return at(given_.gradients.out, x);
      const Index of_block = packed_q_ ? line : b * d_.query_length + line;
      const Bounded<long double>& number = inside->grad_out.row(of_block)[h * width_ + x];
      return Bounded<Wide>{static_cast<Wide>(number.value), static_cast<Wide>(number.bound)};
    });
    const Numbers out = row_of([&](Index x) {
      if (inside == nullptr) return at(out_, x);
      return element(
          inside->out[place * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)]);
    });
    const Bounded<Wide> lse = inside == nullptr ? at(lse_, 0) : element(inside->lse[place]);
    const Source& of_lse = given_.gradients.lse;
    const Wide grad_lse = of_lse.data == nullptr ? 0 : static_cast<Wide>(of_lse.at(b, h, line, 0));
    const RowGiven<Wide> given = {grad_out.data(), out.data(), lse, grad_lse};
    const Row row(head, i, width_, given, given_.derivative);
    add(kGradSinks, h, [&] { return row.sink(); });
    for (Index j = 0; j < s.keys; ++j)
      if (head.attends(i, j)) add_pair(head, row, h, i, j, given);
  }

  void add_pair(const Head<Real>& head, const Row& row, Index h, Index i, Index j,
                const RowGiven<Wide>& given) {
    const Sequence& s = head.sequence();
    const Index g = h / (heads_ / key_heads_);
    const Index line = s.first_query + i;
    const Index place = s.first_key + j;
    const Index of_q = packed_q_ ? 0 : s.batch;
    const Index of_k = packed_k_ ? 0 : s.batch;
    const PairGradient<Wide> pair = row.pair(j);
    const auto add_row = [&](GradientOf of, Index b, Index n, Index at, const Bounded<Wide>& factor,
                             auto&& with, Index features) {
      Gradient<Real>& to = gradients_[of];
      if (to.asked() && features > 0) row.add_to(&to.at(b, n, at, 0), features, factor, with);
    };
    const auto key = [&](Index x) { return head.key(j, x); };
    const auto query = [&](Index x) { return head.query(i, x); };
    const Bounded<Wide> gradient = row.rounded(pair.product);
    if (head.is_cosine()) {
      add_cosine(head, {of_q, line}, {of_k, place}, h, i, j, gradient);
    } else if (head.is_dot()) {
      add_row(kGradQuery, of_q, h, line, gradient, key, d_.features);
      add_row(kGradKey, of_k, g, place, gradient, query, d_.features);
    } else if (!is_zero(gradient)) {  // it adds 0, whatever it meets
      // One that nobody knows may be 0.
      const bool vague = is_unspecified(gradient);
      const auto slope = [&](Index x) {
        if (vague) return kUnbounded<Wide>;
        return product<Real>(exact(head.score_weight(x)), head.slope_of_act(i, j, x));
      };
      add_row(kGradQuery, of_q, h, line, gradient, slope, d_.features);
      add_row(kGradKey, of_k, g, place, gradient, slope, d_.features);
      if (gradients_[kGradScoreWeights].asked())
        row.add_to(&gradients_[kGradScoreWeights].at(0, 0, 0, h * d_.features), d_.features,
                   gradient, [&](Index x) { return vague ? kUnbounded<Wide> : head.act(i, j, x); });
    }
    add_row(
        kGradValue, of_k, g, place, row.rounded(pair.weight),
        [&](Index x) { return given.grad_out[x]; }, width_);
    Gradient<Real>& bias = gradients_[kGradBias];
    if (bias.asked()) bias.at(s.batch, h, i, j).add(pair.biased);
    add(kGradSlopes, h, [&] {
      const Bounded<Wide> far = head.distance(i, j);
      return product<Real>(pair.biased, {-far.value, far.bound});
    });
    add(kGradTemperature, 0, [&] { return row.temperature(j, pair); });
    if (gradients_[kGradScale].asked() && !head.is_cosine()) add_scale(head, i, j, gradient);
  }

  /// What reaches a cosine, in the places of the query and of the key.
  void add_cosine(const Head<Real>& head, const RowPlace& query, const RowPlace& key, Index h,
                  Index i, Index j, const Bounded<Wide>& gradient) {
    const Cosine<Real> cosine = head.cosine(i, j);
    // One of 0 adds 0; beside what is not finite nobody knows.
    const bool odd = !std::isfinite(cosine.value().value) || is_unspecified(cosine.value());
    if (is_zero(gradient) && !odd) return;
    const Bounded<Wide> weighed =
        is_zero(gradient) ? kUnbounded<Wide> : product<Real>(gradient, exact(head.head_weight()));
    if (Gradient<Real>& to = gradients_[kGradQuery]; to.asked())
      cosine.add_query(weighed, [&](Index x) -> BoundedSum<Real>& {
        return to.at(query.batch, h, query.row, x);
      });
    if (Gradient<Real>& to = gradients_[kGradKey]; to.asked())
      cosine.add_key(weighed, [&](Index x) -> BoundedSum<Real>& {
        return to.at(key.batch, h / (heads_ / key_heads_), key.row, x);
      });
    const auto add_value = [&](GradientOf of, Index n, const Bounded<Wide>& factor) {
      Gradient<Real>& to = gradients_[of];
      // Products are summed over pairs before they meet the query; their sizes add up to 1 at most.
      if (to.asked())
        to.at(0, 0, 0, n)
            .add(product<Real>(factor, cosine.value()),
                 2 * (std::fabs(factor.value) + factor.bound));
    };
    add_value(kGradScale, 0, weighed);
    add_value(kGradScoreWeights, h, is_zero(gradient) ? kUnbounded<Wide> : gradient);
  }

  /// One of the arrays of numbers.
  template <class Term>
  void add(GradientOf of, Index n, Term&& term) {
    if (gradients_[of].asked()) gradients_[of].at(0, 0, 0, n).add(term());
  }

  /// <q, k>, a sum of its own. Its order decides which infinities meet, and whether zeros do.
  void add_scale(const Head<Real>& head, Index i, Index j, const Bounded<Wide>& gradient) {
    const Bounded<Wide>* const key = head.key(j);
    const bool finite =
        std::all_of(key, key + d_.features, [](const auto& x) { return std::isfinite(x.value); });
    if (is_zero(gradient) && finite) return;
    const Product<Wide> p = head.product(i, j);
    using A = Arithmetic<Real>;
    const Wide error =
        p.moved + gamma_of<Real>(p.features + 1) * p.magnitude + p.features * A::kUnderflow;
    // Each feature is summed over keys, and flushed, before it meets the query.
    const Wide lost = p.flushed ? A::kSmallest * (p.keys + p.features * (p.largest + 2)) : 0;
    const Bounded<Wide> inner = std::isinf(p.moved) ? kUnbounded<Wide>
                                : p.finite          ? finite_or_unbounded<Real>(p.sum, error + lost)
                                                    : Bounded<Wide>{p.sum, 0};
    Bounded<Wide> term = product<Real>(gradient, inner);
    if (p.flushed && std::isfinite(term.bound))
      term.bound += 2 * A::kSmallest * p.features * p.largest;
    if (is_zero(gradient) || std::isinf(term.value)) term = kUnbounded<Wide>;
    gradients_[kGradScale]
        .at(0, 0, 0, 0)
        .add(term, term.bound + (std::fabs(gradient.value) + gradient.bound) * p.magnitude);
  }

  const BackwardGiven& given_;
  const Given forward_;
  const heed_attention_desc& d_;
  const Index heads_, key_heads_, width_;
  const bool packed_q_, packed_k_;
  std::array<Gradient<Real>, kGradients> gradients_;
  Source out_{}, lse_{};
};

}  // namespace

ExpectedGradients expect_gradients(const BackwardGiven& given) {
  const heed_attention_desc& d = given.desc;
  if (is_float64(d)) return Oracle<double>(given).run();
  ExpectedGradients expected = Oracle<float>(given).run();
  const auto is = [](std::uint32_t dtype) { return dtype == HEED_DTYPE_BF16; };
  if (given.inside != nullptr || !is(d.query.dtype) || !is(d.key.dtype) || !is(d.value.dtype) ||
      !is(given.gradients.out.dtype))
    return expected;
  BackwardGiven in_pairs = given;
  in_pairs.pairs = true;
  expected.pairs = std::make_shared<const ExpectedGradients>(Oracle<float>(in_pairs).run());
  return expected;
}

}  // namespace heed_test
