// One node and one head: the edges that count, their weights, and what comes of them.
//
// With edge features the product <q, k + f W> has the D terms q k and the D E terms q W f, each of
// which sees at most kConstant + D + E + 4 roundings whichever way heed takes: scores.hpp with
// D + E + 2 for the number of features, sum |q| |k| + sum |q| |f| |W| for the magnitude, and what
// underflows times what it is multiplied with. An error of q moves it by e_q |f| |W| more.
//
// Other scores are <a, act(z)>, z = q + k + f W: sums of products (bounded.hpp), what act() makes
// of their bounds (activation.hpp), and a product with a, which has no bound.
//
// The values of edges add sum over w of (sum p f_w) W_w: sums of p f_w as of values, and then a
// product of E terms.
//
// A node with very many edges may be computed in parts of kPartEdges at least, whose results are
// merged by their log-sum-exps. Rounding those to Real moves the weight of a part by a factor, and
// merging takes as many sums as there are parts:
//
//     1 + a' = (1 + a) exp(2 u L) (1 + gamma(parts + 6)),   L = (max s - min s) ln 2 + log(n) + 8
//
// for they are relative to the largest score, and lie within log(n) of one. So do the bounds of all
// results.
//
// Edges. heed is free to compute q (k + f W) and p (v + f W), or q k + (q W^T) f and
// sum p v + (sum p f) W. The bounds are of the second way, in which sums have more terms; those of
// the first are within them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/oracle/activation.hpp"
#include "tests/oracle/cosine.hpp"
#include "tests/oracle/gradient.hpp"
#include "tests/oracle/graph.hpp"
#include "tests/oracle/scored_row.hpp"

namespace heed_test {

/// What edges add to keys or values: their data, and the matrix that it is multiplied with. Without
/// columns where they add nothing.
template <class Wide>
struct EdgeTerms {
  Index width = 0;
  BoundedRows<Wide> data{0}, matrix{0};
  Wide largest = 0;  ///< of the matrix

  bool given() const { return matrix.columns > 0; }
  const Bounded<Wide>& feature(Index e, Index i) const { return data.row(e)[i]; }
  const Bounded<Wide>& weight(Index i, Index column) const { return matrix.row(i)[column]; }
};

template <class Wide>
EdgeTerms<Wide> edge_terms(const GraphGiven& given, GraphGradientOf matrix, Index columns) {
  if (!given.has(matrix)) return {};
  const Index width = given.desc.edge_width;
  const Source& data = given.inputs[kGraphEdgeData];
  EdgeTerms<Wide> all = {width, rows_of<Wide>(data, 0, 0, 0, given.edges.size(), width),
                         rows_of<Wide>(given.inputs[matrix], 0, 0, 0, width, columns)};
  for (const Bounded<Wide>& w : all.matrix.numbers)
    all.largest = std::max(all.largest, std::fabs(w.value));
  return all;
}

/// A sum of products f W of numbers that are off by their bounds. What is not finite may turn out
/// as an infinity or as NaN, one way or the other, but where a NaN makes it one for certain.
template <class Real, class NumberOf, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> edge_sum(const EdgeTerms<Wide>& terms, Index column, NumberOf&& number_of) {
  BoundedSum<Real> sum;
  bool nan = false;
  for (Index i = 0; i < terms.width; ++i) {
    const Bounded<Wide> f = number_of(i);
    const Bounded<Wide>& w = terms.weight(i, column);
    nan = nan || std::isnan(f.value) || std::isnan(w.value);
    sum.add(f, w);
  }
  const Bounded<Wide> result = sum.result(2);
  if (nan) return kNotANumber<Wide>;
  return std::isfinite(result.value) ? result : kUnbounded<Wide>;
}

/// The numbers of one step, of all nodes and edges.
template <class Wide>
struct GraphNumbers {
  BoundedRows<Wide> query{0}, key{0}, value{0};
  EdgeTerms<Wide> edge_key, edge_value;
  Source bias;  ///< of edges
  Index step = 0;
};

struct GraphPlace {
  Index node, head;
};

template <class Real>
class GraphRow : public ScoredRow<Real> {
  using Base = ScoredRow<Real>;

 public:
  using Wide = typename Arithmetic<Real>::Wide;

  /// `edges` end at the node, in order.
  GraphRow(const GraphGiven& given, const GraphNumbers<Wide>& numbers, const GraphPlace& place,
           const std::vector<Index>& edges)
      : Base(given.desc.hard != 0),
        d_(given.desc),
        edges_(given.edges),
        numbers_(numbers),
        given_(given),
        weights_(given.inputs[kGraphScoreWeights]),
        act_(d_.activation, d_.slope),
        has_bias_(given.has(kGraphEdgeBias)),
        place_(place),
        query_(numbers.query.row(place.node) + place.head * d_.features) {
    if (is_cosine()) unit_query_ = unit_row<Real>(query_, d_.features);
    for (const Index e : edges)
      if (!has_bias_ || bias(e) != -kInfinite<Wide>) this->attend(e, score(e));
    this->weigh(false, {}, [&](Index a, Index b) { return same(a, b); });
    if (d_.hard != 0 || this->spoilt()) return;
    const auto parts = static_cast<Index>(edges.size()) / kPartEdges + 1;
    if (parts > 1 && !this->scores().empty()) allow_merging(static_cast<Wide>(parts));
    if (numbers_.edge_value.given()) add_up_edges();
  }

  /// Feature x of the result. Where hard attention may choose among several edges, all of theirs.
  Bounded<Wide> result(Index x) const {
    return this->unless_spoilt([&] {
      if (d_.hard != 0) return hardest_value(x);
      const Bounded<Wide> values =
          weighted_sum<Real>(this->softmax(), this->attended().size(), [&](std::size_t j) {
            const Bounded<Wide>& v = value(this->attended()[j], x);
            return dropped(j) ? dropped_value(v) : v;
          });
      return over_kept<Real>(numbers_.edge_value.given() ? sum(values, edge_part(x)) : values,
                             d_.dropout);
    });
  }

  Element lse() const { return this->lse_as(dtype_of(d_.lse.dtype, real_dtype(d_))); }

  // ---- What gradients need ----

  /// Whether dropout takes the j-th edge that counts out.
  bool dropped(std::size_t j) const {
    const Index place = this->attended()[j];
    const Index e = given_.dropout_edges != nullptr ? given_.dropout_edges[place] : place;
    const std::uint64_t offset = given_.dropout_offset + static_cast<std::uint64_t>(numbers_.step);
    return is_dropped(d_.dropout, given_.dropout_seed, offset, 0, e >> 32, e, place_.head);
  }

  /// The weight of the j-th edge that counts, computed from the log-sum-exp: see
  /// backward_row.hpp, 1. A row with scores of +inf has no such weights.
  Bounded<Wide> weight_by_lse(std::size_t j) const {
    if (this->is_unspecified()) return kUnbounded<Wide>;
    const Bounded<Wide>& t = this->scores()[j];
    if (this->is_nan()) return t.value == -kInfinite<Wide> ? kUnbounded<Wide> : kNotANumber<Wide>;
    const bool none = t.value == -kInfinite<Wide>;
    if (this->softmax().lse == kInfinite<Wide>) return none ? kUnbounded<Wide> : kNotANumber<Wide>;
    if (none) return {0, 0};
    if (std::isinf(this->softmax().lse_error)) return kUnbounded<Wide>;
    const Wide l = this->softmax().lse / kLn2Of<Wide>;
    // Far from 0 it is kept in two numbers.
    const Wide kept = std::fabs(l) > 2 * kFarLse<Real> ? 8 : std::fabs(l);
    return heed_test::weight_by_lse<Real>(t, l, this->softmax().lse_error / kLn2Of<Wide>, kept);
  }

  /// Whether the j-th edge's score is -inf for certain.
  bool excluded(std::size_t j) const {
    return !heed_test::is_unspecified(this->scores()[j]) &&
           this->scores()[j].value == -kInfinite<Wide>;
  }

  /// The derivative of the softcap at the j-th edge's score: backward_row.hpp, 4.
  Bounded<Wide> slope_of_cap(std::size_t j) const {
    if (d_.softcap == 0) return {1, 0};
    const auto cap = static_cast<Wide>(d_.softcap);
    return cap_slope<Real>(capped<Real>(product(this->attended()[j]), scale(), cap, 1 / cap));
  }

  /// Feature x of the j-th edge's key or value without what edges add, and of the query.
  const Bounded<Wide>& key_of(std::size_t j, Index x) const { return key(this->attended()[j])[x]; }
  const Bounded<Wide>& value_of(std::size_t j, Index x) const {
    return value(this->attended()[j], x);
  }
  const Bounded<Wide>& query_of(Index x) const { return query_[x]; }

  /// Of scores that are cosines, the query over its length, and the j-th edge's key.
  bool is_cosine() const { return d_.score == HEED_SCORE_COSINE; }
  const UnitRow<Wide>& unit_query() const { return unit_query_; }
  UnitRow<Wide> unit_key(std::size_t j) const {
    return unit_row<Real>(key(this->attended()[j]), d_.features);
  }
  Wide head_weight() const {
    if (!is_cosine() || weights_.data == nullptr) return 1;
    return static_cast<Wide>(weights_.at(0, 0, 0, place_.head));
  }

  /// Of scores that are no products: a_x, and act() of feature x of the j-th edge with its
  /// derivative.
  Bounded<Wide> weight_of(Index x) const { return exact(score_weight(x)); }
  Bounded<Wide> act_of(std::size_t j, Index x) const {
    return act_.value(sum_of(this->attended()[j], x));
  }
  Bounded<Wide> slope_of(std::size_t j, Index x) const {
    return act_.slope(sum_of(this->attended()[j], x));
  }

 private:
  using A = Arithmetic<Real>;
  static constexpr Index kPartEdges = 8192;

  // ---- Scores ----

  /// Converted to the arithmetic's type first, whatever its own; what is finite stays it.
  Wide bias(Index e) const { return as_real<Real>(numbers_.bias.at(0, place_.head, e, 0)); }

  Index source(Index e) const { return edges_.sources[static_cast<std::size_t>(e)]; }
  const Bounded<Wide>* key(Index e) const {
    return numbers_.key.row(source(e)) + place_.head * d_.features;
  }

  /// Log2 units of s / temperature.
  Bounded<Wide> score(Index e) const {
    const Wide temperature = d_.temperature != 0 ? static_cast<Wide>(d_.temperature) : 1;
    const Wide unit = kLog2EOf<Wide> / temperature;
    const Product<Wide> p = product(e);
    const Bounded<Wide> s = d_.softcap == 0
                                ? scaled<Real>(p, scale() * unit)
                                : capped<Real>(p, scale(), static_cast<Wide>(d_.softcap), unit);
    return has_bias_ ? plus_bias<Real>(s, bias(e), unit) : s;
  }

  Wide scale() const { return scale_of<Wide>(d_) * head_weight(); }

  Wide score_weight(Index x) const {
    if (weights_.data == nullptr) return 1;
    return static_cast<Wide>(weights_.at(0, 0, 0, place_.head * d_.features + x));
  }

  /// z, of feature x.
  Bounded<Wide> sum_of(Index e, Index x) const {
    const EdgeTerms<Wide>& terms = numbers_.edge_key;
    BoundedSum<Real> z;
    z.add(query_[x]);
    z.add(key(e)[x]);
    for (Index i = 0; terms.given() && i < terms.width; ++i)
      z.add(terms.feature(e, i), terms.weight(i, place_.head * d_.features + x));
    return z.result(1);
  }

  Product<Wide> product(Index e) const {
    if (d_.score != HEED_SCORE_DOT && !is_cosine())
      return activated_product<Wide>(
          d_.features, [&](Index x) { return score_weight(x); },
          [&](Index x) {
            const Bounded<Wide> z = sum_of(e, x);
            return std::isinf(z.value) ? kUnbounded<Wide> : act_.value(z);
          });
    if (is_cosine())
      return product_of(unit_query_.numbers.data(),
                        unit_row<Real>(key(e), d_.features).numbers.data(), d_.features);
    const Product<Wide> p = product_of(query_, key(e), d_.features);
    return numbers_.edge_key.given() ? plus_edge(p, e) : p;
  }

  Product<Wide> plus_edge(Product<Wide> p, Index e) const {
    const EdgeTerms<Wide>& terms = numbers_.edge_key;
    Wide queries = 0;
    Wide data = 0;
    bool nan = std::isnan(p.sum) && p.moved == 0;
    for (Index i = 0; i < terms.width; ++i) data += std::fabs(terms.feature(e, i).value);
    for (Index x = 0; x < d_.features; ++x) {
      const Bounded<Wide>& q = query_[x];
      queries += std::fabs(q.value) + q.bound;
      for (Index i = 0; i < terms.width; ++i) {
        const Wide f = terms.feature(e, i).value;
        const Wide term = f * terms.weight(i, place_.head * d_.features + x).value;
        nan = nan || (std::isnan(term) && !std::isinf(f));
        p.sum += q.value * term;
        p.moved += q.bound == 0 ? 0 : q.bound * std::fabs(term);
        p.magnitude += (std::fabs(q.value) + q.bound) * std::fabs(term);
        p.keys += std::fabs(term);
      }
    }
    p.keys += (p.features + 1) * data;
    const auto width = static_cast<Wide>(terms.width);
    p.moved += A::kUnderflow * width * queries;
    p.largest *= std::max(Wide{1}, p.features * terms.largest);
    p.features += width + 2;
    if (p.finite && std::isfinite(p.magnitude)) return p;
    // A NaN is one either way; an infinity may become one.
    p.finite = false;
    p.moved = nan ? 0 : kInfinite<Wide>;
    if (nan) p.sum = std::numeric_limits<Wide>::quiet_NaN();
    return p;
  }

  // ---- Weights ----

  /// Whether two edges have the same score for certain: the same source and nothing of their own.
  bool same(Index a, Index b) const {
    if (numbers_.edge_key.given() || (has_bias_ && bias(a) != bias(b))) return false;
    if (source(a) == source(b)) return true;
    const auto equal = [](const Bounded<Wide>& x, const Bounded<Wide>& y) {
      return x.bound == 0 && y.bound == 0 && x.value == y.value;
    };
    return std::equal(key(a), key(a) + d_.features, key(b), equal);
  }

  void allow_merging(Wide parts) {
    Wide low = kInfinite<Wide>;
    Wide high = -kInfinite<Wide>;
    for (const Bounded<Wide>& s : this->scores()) {
      if (!std::isfinite(s.value)) continue;
      low = std::min(low, s.value - s.bound);
      high = std::max(high, s.value + s.bound);
    }
    const auto n = static_cast<Wide>(this->scores().size());
    const Wide reach = std::max(high - low, Wide{0}) * kLn2Of<Wide> + std::log(n) + 8;
    const Wide factor = 2 * A::kUnit * reach + std::log1p(gamma_of<Real>(parts + 6));
    for (Wide& a : this->softmax().error) a = std::expm1(std::log1p(a) + factor);
    this->softmax().denominator_error =
        std::expm1(std::log1p(this->softmax().denominator_error) + factor);
    this->softmax().lse_error += factor;
  }

  // ---- Values ----

  const Bounded<Wide>& value(Index e, Index x) const {
    return numbers_.value.row(source(e))[column(x)];
  }
  Index column(Index x) const { return place_.head * value_features_of(d_) + x; }

  /// a + b, the second computed and rounded on its own.
  Bounded<Wide> sum(const Bounded<Wide>& a, const Bounded<Wide>& b) const {
    const Wide value = a.value + b.value;
    if (std::isinf(a.bound) || std::isinf(b.bound)) return kUnbounded<Wide>;
    if (!std::isfinite(value)) return {value, 0};
    const Wide size = std::fabs(a.value) + a.bound + std::fabs(b.value) + b.bound;
    return bounded<Real>(value, a.bound + b.bound + 2 * A::kUnit * size, size);
  }

  /// What edges add to feature x of the result; `sums_` are those of p f.
  Bounded<Wide> edge_part(Index x) const {
    return edge_sum<Real>(numbers_.edge_value, column(x),
                          [&](Index i) { return sums_[static_cast<std::size_t>(i)]; });
  }

  void add_up_edges() {
    for (Index i = 0; i < numbers_.edge_value.width; ++i)
      sums_.push_back(
          weighted_sum<Real>(this->softmax(), this->attended().size(), [&](std::size_t j) {
            const Bounded<Wide>& f = numbers_.edge_value.feature(this->attended()[j], i);
            return dropped(j) ? dropped_value(f) : f;
          }));
  }

  /// The value of one edge, its own part included.
  Bounded<Wide> chosen_value(std::size_t j, Index x) const {
    const Index e = this->attended()[j];
    if (!numbers_.edge_value.given()) return value(e, x);
    return sum(value(e, x), edge_sum<Real>(numbers_.edge_value, column(x), [&](Index i) {
                 return numbers_.edge_value.feature(e, i);
               }));
  }

  /// The value of the one edge that may be chosen, or the range of those of several.
  Bounded<Wide> hardest_value(Index x) const {
    if (this->choices().empty()) return {0, 0};
    const Bounded<Wide> first = chosen_value(this->choices()[0], x);
    if (this->choices().size() == 1) return first;
    Wide low = first.value - first.bound;
    Wide high = first.value + first.bound;
    for (const std::size_t j : this->choices()) {
      const Bounded<Wide> one = chosen_value(j, x);
      if (!std::isfinite(one.value) || !std::isfinite(low)) return kUnbounded<Wide>;
      low = std::min(low, one.value - one.bound);
      high = std::max(high, one.value + one.bound);
    }
    return {(low + high) / 2, (high - low) / 2 * (1 + static_cast<Wide>(1e-12))};
  }

  const heed_graph_attention_desc& d_;
  const EdgeList& edges_;
  const GraphNumbers<Wide>& numbers_;
  const GraphGiven& given_;
  const Source& weights_;  ///< of features
  const OracleActivation<Real> act_;
  const bool has_bias_;
  const GraphPlace place_;
  const Bounded<Wide>* const query_;
  UnitRow<Wide> unit_query_;
  std::vector<Bounded<Wide>> sums_;  ///< of edge data, weighted
};

}  // namespace heed_test
