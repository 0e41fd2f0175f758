// One node and one head: the edges that count, their weights, and what comes of them.
//
// With edge features the product <q, k + f W> has the D terms q k and the D E terms q W f, each of
// which sees at most kConstant + D + E + 4 roundings whichever way heed takes: scores.hpp with
// D + E + 2 for the number of features, sum |q| |k| + sum |q| |f| |W| for the magnitude, and what
// underflows times what it is multiplied with. Where q and k are off themselves,
//
//     e = sum e_q (|k| + |f W|) + |q| e_k + e_q e_k
//
// is added. A value v + f W likewise has one term and E more, and on the way to the result
// gamma(E + 5) of their sizes: a product, E + 1 sums, and the normalisation before or after.
//
// A node with very many edges may be computed in parts, whose results are merged by their
// log-sum-exps. Rounding those to Real moves the weight of a part by a factor, and merging takes
// as many sums as there are parts:
//
//     1 + a' = (1 + a) exp(2 u L) (1 + gamma(parts + 6)),   L = max |s| ln 2 + log(n) + 8
//
// for a log-sum-exp lies within log(n) of a score. So do the bounds of all results.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "tests/reference/element.hpp"
#include "tests/reference/graph_projection.hpp"
#include "tests/reference/hard.hpp"
#include "tests/reference/scores.hpp"
#include "tests/reference/softmax.hpp"

namespace heed_test {

/// The numbers of one step, of all nodes and edges.
template <class Wide>
struct GraphNumbers {
  BoundedRows<Wide> query, key, value;
  EdgeTerms<Wide> edge_key, edge_value;
  Source bias;  ///< of edges
};

/// Which node and head, and how many parts it may be computed in.
struct GraphPlace {
  Index node, head, parts;
};

template <class Real>
class GraphRow {
 public:
  using Wide = typename Arithmetic<Real>::Wide;

  /// `edges` end at the node, in order.
  GraphRow(const GraphGiven& given, const GraphNumbers<Wide>& numbers, const GraphPlace& place,
           const std::vector<Index>& edges)
      : d_(given.desc),
        edges_(given.edges),
        numbers_(numbers),
        has_bias_(given.args.edge_bias != nullptr),
        place_(place),
        query_(numbers.query.row(place.node) + place.head * d_.features) {
    for (const Index e : edges) {
      if (has_bias_ && bias(e) == -kInfinite<Wide>) continue;
      attended_.push_back(e);
      scores_.push_back(score(e));
      nan_ = nan_ || std::isnan(scores_.back().value);
      unspecified_ = unspecified_ || scores_.back().unspecified();
    }
    if (!nan_ && !unspecified_) weigh();
  }

  /// The edges that count, and whether the node has a result at all.
  const std::vector<Index>& attended() const { return attended_; }

  /// Feature x of the result. Where hard attention may choose among several edges, all of theirs.
  Bounded<Wide> result(Index x) const {
    if (attended_.empty()) return {0, 0};
    if (unspecified_) return kUnknownNumber<Wide>;
    if (nan_) return {std::numeric_limits<Wide>::quiet_NaN(), 0};
    if (d_.hard != 0) return hardest_value(x);
    return weighted_terms<Real>(softmax_, attended_.size(),
                                [&](std::size_t j) { return value(attended_[j], x); });
  }

  Element lse() const {
    if (unspecified_) return kUnspecified;
    if (nan_) return {kNaN, 0};
    const std::uint32_t real = real_dtype(d_);
    return stored(softmax_.lse, softmax_.lse_error, dtype_of(d_.lse.dtype, real), HEED_DTYPE_F64);
  }

  /// The weight of the j-th edge that counts.
  Bounded<Wide> weight(std::size_t j) const {
    if (unspecified_) return kUnknownNumber<Wide>;
    if (nan_) return {std::numeric_limits<Wide>::quiet_NaN(), 0};
    return d_.hard != 0 ? chosen(j) : probability<Real>(softmax_, j);
  }

  /// Whether edges that do not count may be shown as NaN, or as anything.
  bool spoilt() const { return nan_ || unspecified_; }

 private:
  using A = Arithmetic<Real>;

  // ---- Scores ----

  /// Converted to the arithmetic's type first, whatever its own.
  Wide bias(Index e) const {
    return static_cast<Wide>(static_cast<Real>(numbers_.bias.at(0, place_.head, e, 0)));
  }

  Index source(Index e) const { return edges_.sources[static_cast<std::size_t>(e)]; }
  const Bounded<Wide>* key(Index e) const {
    return numbers_.key.row(source(e)) + place_.head * d_.features;
  }

  /// Log2 units of s / temperature.
  Score<Wide> score(Index e) const {
    const Wide temperature = d_.temperature != 0 ? static_cast<Wide>(d_.temperature) : 1;
    const Wide unit = kLog2EOf<Wide> / temperature;
    const Wide scale =
        d_.scale != 0 ? static_cast<Wide>(d_.scale) : 1 / std::sqrt(static_cast<Wide>(d_.features));
    const Product<Wide> p = product(e);
    if (std::isinf(p.error)) return kUnknownScore<Wide>;
    const Score<Wide> s = d_.softcap == 0
                              ? scaled<Real>(p, scale * unit)
                              : capped<Real>(p, scale, static_cast<Wide>(d_.softcap), unit);
    return has_bias_ ? plus_bias<Real>(s, bias(e), unit) : s;
  }

  Product<Wide> product(Index e) const {
    const Bounded<Wide>* const k = key(e);
    std::vector<Wide> queries, keys;
    Wide moved = 0;
    for (Index x = 0; x < d_.features; ++x) {
      queries.push_back(query_[x].value);
      keys.push_back(k[x].value);
      if (query_[x].bound > 0) moved += query_[x].bound * (std::fabs(k[x].value) + k[x].bound);
      if (k[x].bound > 0) moved += std::fabs(query_[x].value) * k[x].bound;
    }
    Product<Wide> p = product_of(queries.data(), keys.data(), d_.features);
    p.error = std::isfinite(moved) ? moved : has_nan(e) ? 0 : kInfinite<Wide>;
    if (numbers_.edge_key.given()) add_edge(p, e);
    return p;
  }

  void add_edge(Product<Wide>& p, Index e) const {
    const EdgeTerms<Wide>& terms = numbers_.edge_key;
    const EdgeTerm<Wide>* const term = terms.row(e) + place_.head * d_.features;
    const auto width = static_cast<Wide>(terms.width);
    Wide queries = 0;
    for (Index x = 0; x < d_.features; ++x) {
      const Wide q = std::fabs(query_[x].value);
      p.sum += query_[x].value * term[x].value;
      p.magnitude += q * term[x].magnitude;
      p.keys += term[x].magnitude;
      p.error += query_[x].bound > 0 ? query_[x].bound * term[x].magnitude : 0;
      queries += q;
    }
    p.keys += (p.features + 1) * terms.size(e);
    p.error += A::kUnderflow * width * queries;
    p.largest *= std::max(Wide{1}, p.features * terms.largest);
    p.features += width + 2;
    if (std::isfinite(p.magnitude) && p.finite) return;
    // A NaN is one either way; an infinity may become one.
    p.finite = false;
    p.error = has_nan(e) ? 0 : kInfinite<Wide>;
  }

  /// Whether the score of an edge is NaN for certain.
  bool has_nan(Index e) const {
    const EdgeTerms<Wide>& terms = numbers_.edge_key;
    for (Index x = 0; x < d_.features; ++x) {
      const Index column = place_.head * d_.features + x;
      if (std::isnan(query_[x].value) || std::isnan(key(e)[x].value)) return true;
      if (terms.given() && std::isnan(terms.row(e)[column].value)) return true;
    }
    return false;
  }

  // ---- Weights ----

  void weigh() {
    if (d_.hard != 0) {
      choices_ = hardest(
          scores_, [&](std::size_t a, std::size_t b) { return same(attended_[a], attended_[b]); });
      return;
    }
    softmax_ = softmax_of<Real>(scores_, Wide{0});
    if (place_.parts > 1) allow_merging();
  }

  /// Whether two edges have the same score for certain: the same source and nothing of their own.
  bool same(Index a, Index b) const {
    if (numbers_.edge_key.given() || (has_bias_ && bias(a) != bias(b))) return false;
    if (source(a) == source(b)) return true;
    const auto equal = [](const Bounded<Wide>& x, const Bounded<Wide>& y) {
      return x.bound == 0 && y.bound == 0 && x.value == y.value;
    };
    return std::equal(key(a), key(a) + d_.features, key(b), equal);
  }

  void allow_merging() {
    Wide farthest = 0;
    for (const Score<Wide>& s : scores_)
      if (std::isfinite(s.value)) farthest = std::max(farthest, std::fabs(s.value) + s.error);
    const auto n = static_cast<Wide>(scores_.size());
    const Wide reach = farthest * kLn2Of<Wide> + std::log(n) + 8;
    const Wide factor =
        2 * A::kUnit * reach + std::log1p(gamma_of<Real>(static_cast<Wide>(place_.parts) + 6));
    for (Wide& a : softmax_.error) a = std::expm1(std::log1p(a) + factor);
    softmax_.denominator_error = std::expm1(std::log1p(softmax_.denominator_error) + factor);
    softmax_.lse_error += factor;
  }

  /// 1, or 0; one of them where there are several choices.
  Bounded<Wide> chosen(std::size_t j) const {
    const bool may_be = std::count(choices_.begin(), choices_.end(), j) > 0;
    const Wide half = static_cast<Wide>(0.5);
    if (may_be && choices_.size() > 1) return {half, half};
    return {static_cast<Wide>(may_be ? 1 : 0), 0};
  }

  // ---- Values ----

  Term<Wide> value(Index e, Index x) const {
    const Index column = place_.head * value_features_of(d_) + x;
    const Bounded<Wide>& v = numbers_.value.row(source(e))[column];
    Term<Wide> term{v.value, std::fabs(v.value), v.bound};
    if (!numbers_.edge_value.given()) return term;
    const EdgeTerm<Wide>& edge = numbers_.edge_value.row(e)[column];
    const auto width = static_cast<Wide>(numbers_.edge_value.width);
    term.value += edge.value;
    term.magnitude += edge.magnitude;
    if (std::isnan(term.value)) return {term.value, 0, 0};
    term.error += gamma_of<Real>(width + 5) * term.magnitude +
                  A::kUnderflow * (width + 1 + numbers_.edge_value.largest * width);
    return term;
  }

  /// The value of the one edge that may be chosen, or the range of those of several.
  Bounded<Wide> hardest_value(Index x) const {
    if (choices_.empty()) return {0, 0};
    const Term<Wide> first = value(attended_[choices_[0]], x);
    if (choices_.size() == 1) {
      if (std::isinf(first.error)) return kUnknownNumber<Wide>;
      return {first.value, first.error};
    }
    Wide low = first.value - first.error;
    Wide high = first.value + first.error;
    for (const std::size_t j : choices_) {
      const Term<Wide> term = value(attended_[j], x);
      if (!std::isfinite(term.value) || !std::isfinite(low)) return kUnknownNumber<Wide>;
      low = std::min(low, term.value - term.error);
      high = std::max(high, term.value + term.error);
    }
    return {(low + high) / 2, (high - low) / 2 * (1 + static_cast<Wide>(1e-12))};
  }

  const heed_graph_attention_desc& d_;
  const EdgeList& edges_;
  const GraphNumbers<Wide>& numbers_;
  const bool has_bias_;
  const GraphPlace place_;
  const Bounded<Wide>* const query_;
  std::vector<Index> attended_;
  std::vector<Score<Wide>> scores_;
  Softmax<Wide> softmax_;
  std::vector<std::size_t> choices_;
  bool nan_ = false;
  bool unspecified_ = false;
};

}  // namespace heed_test
