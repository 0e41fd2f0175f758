#include "tests/oracle/graph.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "tests/oracle/gradient.hpp"
#include "tests/oracle/graph_row.hpp"
#include "tests/oracle/multihead_combine.hpp"
#include "tests/oracle/project.hpp"

namespace heed_test {
namespace {

// ---- Attention, step by step ----

/// All features of all heads of a row side by side.
template <class Wide>
BoundedRows<Wide> exact_rows(const Source& from, Index rows, Index heads, Index features) {
  BoundedRows<Wide> all{heads * features};
  all.numbers.reserve(static_cast<std::size_t>(rows * all.columns));
  for (Index i = 0; i < rows; ++i)
    for (Index h = 0; h < heads; ++h)
      for (Index x = 0; x < features; ++x)
        all.numbers.push_back({static_cast<Wide>(from.at(0, h, i, x)), 0});
  return all;
}

template <class Real>
class GraphOracle {
 public:
  using Wide = typename Arithmetic<Real>::Wide;

  explicit GraphOracle(const GraphGiven& given)
      : given_(given),
        d_(given.desc),
        real_(real_dtype(d_)),
        width_(value_features_of(d_)),
        incoming_(incoming(given.edges)) {}

  Expected run() {
    return run([](const GraphNumbers<Wide>&, const BoundedRows<Wide>&) {});
  }

  /// Calls see(numbers, data) with what every step reads.
  template <class See>
  Expected run(See&& see) {
    read_inputs();
    for (Index step = 0; step < steps_of(d_); ++step) {
      if (step > 0) take_out_for_data();
      if (d_.inputs != HEED_GRAPH_PROJECTED) project();
      numbers_.step = step;
      see(numbers_, data_);
      run_step();
    }
    return expected_;
  }

 private:
  using A = Arithmetic<Real>;
  using Number = Bounded<Wide>;
  static std::size_t size(Index n) { return static_cast<std::size_t>(n); }

  // ---- Inputs ----

  void read_inputs() {
    const auto rows = [&](GraphGradientOf of, Index count, Index heads, Index features) {
      return exact_rows<Wide>(given_.inputs[of], count, heads, features);
    };
    if (given_.has(kGraphData)) data_ = rows(kGraphData, given_.edges.nodes, 1, d_.width);
    if (d_.inputs == HEED_GRAPH_PROJECTED) {
      const Index sources = sources_of(given_.edges);
      numbers_.query = rows(kGraphQuery, given_.nodes(), d_.heads, d_.features);
      numbers_.key = rows(kGraphKey, sources, d_.heads, d_.features);
      numbers_.value = rows(kGraphValue, sources, d_.heads, width_);
    }
    numbers_.edge_key = edge_terms<Wide>(given_, kGraphWEdgeKey, d_.heads * d_.features);
    numbers_.edge_value = edge_terms<Wide>(given_, kGraphWEdgeValue, d_.heads * width_);
    numbers_.bias = given_.inputs[kGraphEdgeBias];
    if (given_.has(kGraphHeadWeights))
      head_weights_ = rows_of<Wide>(given_.inputs[kGraphHeadWeights], 0, 0, 0, 1, d_.heads);
  }

  void project() {
    numbers_.query = product(kGraphWQuery, kGraphBQuery, d_.features);
    numbers_.key = product(kGraphWKey, kGraphBKey, d_.features);
    numbers_.value = product(kGraphWValue, kGraphBValue, width_);
  }

  BoundedRows<Wide> product(GraphGradientOf matrix, GraphGradientOf bias, Index features) const {
    BoundedRows<Wide> all{d_.heads * features}, w{all.columns};
    for (Index n = 0; n < given_.edges.nodes; ++n) {
      if (n == 0 || d_.inputs == HEED_GRAPH_PER_NODE)
        w = rows_of<Wide>(given_.inputs[matrix], n, 0, 0, d_.width, all.columns);
      for (Index o = 0; o < all.columns; ++o)
        all.numbers.push_back(projected<Real>(data_.row(n), w, given_.inputs[bias], o));
    }
    return all;
  }

  /// Element x of row n lies at [x / value_features, n, x % value_features].
  void take_out_for_data() {
    data_.columns = out_heads_of(d_) * width_;
    data_.numbers.clear();
    for (Index n = 0; n < given_.edges.nodes; ++n)
      for (Index x = 0; x < data_.columns; ++x) {
        const Element& e = expected_.out[out_at(n, x / width_, x % width_)];
        data_.numbers.push_back({static_cast<Wide>(e.value), static_cast<Wide>(e.bound)});
      }
  }

  std::size_t out_at(Index n, Index h, Index x) const {
    return size((h * given_.nodes() + n) * width_ + x);
  }

  // ---- One step ----

  void run_step() {
    const Index nodes = given_.nodes();
    expected_.out.assign(size(out_heads_of(d_) * nodes * width_), kUnwritten);
    expected_.lse.assign(size(d_.heads * nodes), kUnwritten);
    expected_.weights.assign(size(d_.heads * given_.edges.size()), {0, 0});
    for (Index n = 0; n < nodes; ++n) {
      std::vector<Number> results;
      for (Index h = 0; h < d_.heads; ++h) {
        const GraphRow<Real> row(given_, numbers_, {n, h}, incoming_[size(n)]);
        expected_.lse[size(h * nodes + n)] = row.lse();
        store_weights(row, n, h);
        for (Index x = 0; x < width_; ++x) results.push_back(row.result(x));
      }
      store_out(results, n);
    }
  }

  void store_weights(const GraphRow<Real>& row, Index n, Index h) {
    const std::uint32_t dtype = dtype_of(d_.weights.dtype, real_);
    const auto at = [&](Index e) -> Element& {
      return expected_.weights[size(h * given_.edges.size() + e)];
    };
    if (row.spoilt())
      for (const Index e : incoming_[size(n)]) at(e) = kUnspecified;
    for (std::size_t j = 0; j < row.attended().size(); ++j) {
      const Number p = row.weight(j);
      at(row.attended()[j]) = stored(p.value, p.bound, dtype, real_);
    }
  }

  void store_out(const std::vector<Number>& results, Index n) {
    for (Index h = 0; h < out_heads_of(d_); ++h)
      for (Index x = 0; x < width_; ++x) {
        Number number = combined<Real>(d_.combine, results.data(), d_.heads, width_, h * width_ + x,
                                       head_weights_.row(0));
        if (d_.residual != 0) number = sum<Real>(data_.row(n)[h * width_ + x], number);
        number = bounded<Real>(number.value, number.bound, std::fabs(number.value));
        expected_.out[out_at(n, h, x)] =
            stored(number.value, number.bound, dtype_of(d_.out.dtype, HEED_DTYPE_F32), real_);
      }
  }

  const GraphGiven& given_;
  const heed_graph_attention_desc& d_;
  const std::uint32_t real_;
  const Index width_;
  const std::vector<std::vector<Index>> incoming_;
  BoundedRows<Wide> data_{0}, head_weights_{0};
  GraphNumbers<Wide> numbers_;
  Expected expected_;
};

// ---- Gradients ----

/// Sums that belong to rows, until they are complete.
template <class Real>
class RowSums {
 public:
  using Wide = typename Arithmetic<Real>::Wide;

  RowSums(Index rows, Index columns)
      : columns_(columns), sums_(static_cast<std::size_t>(rows * columns)) {}

  BoundedSum<Real>& at(Index row, Index column) {
    return sums_[static_cast<std::size_t>(row * columns_ + column)];
  }
  BoundedRows<Wide> finished(const Bounded<Wide>& factor, Wide roundings) const {
    BoundedRows<Wide> all{columns_, {}};
    for (const BoundedSum<Real>& sum : sums_)
      all.numbers.push_back(scaled_gradient(sum, factor, roundings));
    return all;
  }

 private:
  Index columns_;
  std::vector<BoundedSum<Real>> sums_;
};

template <class Real>
class GraphBackwardOracle {
 public:
  using Wide = typename Arithmetic<Real>::Wide;
  using Number = Bounded<Wide>;
  using Rows = BoundedRows<Wide>;

  explicit GraphBackwardOracle(const GraphBackwardGiven& given)
      : given_(given),
        forward_(given.forward),
        d_(forward_.desc),
        nodes_(forward_.edges.nodes),
        heads_(d_.heads),
        width_(value_features_of(d_)),
        real_(real_dtype(d_)),
        incoming_(incoming(forward_.edges)) {
    for (std::size_t of = 0; of < kGraphGradients; ++of)
      gradients_[of] = {given.gradients.of[of], true};
  }

  ExpectedGraphGradients run() {
    std::vector<GraphNumbers<Wide>> numbers;
    std::vector<Rows> data;
    GraphOracle<Real>(forward_).run([&](const GraphNumbers<Wide>& of_step, const Rows& of_data) {
      numbers.push_back(of_step);
      data.push_back(of_data);
    });
    Rows grad = exact_rows<Wide>(given_.gradients.out, nodes_, out_heads_of(d_), width_);
    for (std::size_t t = numbers.size(); t-- > 0;)
      grad = back(numbers[t], data[t], grad, t + 1 == numbers.size());
    if (gradients_[kGraphData].asked()) add_all(kGraphData, grad);
    ExpectedGraphGradients all;
    for (std::size_t of = 0; of < kGraphGradients; ++of)
      all[of] = gradients_[of].elements({1, 0}, 4, given_.gradients.accumulate, real_,
                                        static_cast<Wide>(steps_of(d_)));
    if (given_.gradients.accumulate)
      for (const GraphGradientOf of : {kGraphEdgeData, kGraphEdgeBias}) keep_removed(of, all[of]);
    return all;
  }

 private:
  using A = Arithmetic<Real>;

  void add_all(GraphGradientOf of, const Rows& rows) {
    const Index features = given_.gradients.of[of].shape[3];
    for (Index n = 0; n < nodes_; ++n)
      for (Index x = 0; x < rows.columns; ++x)
        gradients_[of].at(0, x / features, n, x % features).add(rows.row(n)[x]);
  }

  /// What is there stays as it is where edges are removed.
  void keep_removed(GraphGradientOf of, std::vector<Element>& elements) const {
    if (elements.empty()) return;
    const auto& [lies, shape] = given_.gradients.of[of];
    const Index edges = shape[2], features = shape[3];
    std::vector<bool> counts(static_cast<std::size_t>(edges));
    for (const auto& into : incoming_)
      for (const Index e : into) counts[static_cast<std::size_t>(e)] = true;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const auto n = static_cast<Index>(i);
      const Index e = n / features % edges;
      if (!counts[static_cast<std::size_t>(e)])
        elements[i] = {lies.at(0, n / features / edges, e, n % features), 0};
    }
  }

  // ---- One step ----

  /// The gradient of the step's data; without columns where there is none.
  Rows back(const GraphNumbers<Wide>& numbers, const Rows& data, const Rows& grad, bool last) {
    RowSums<Real> query(nodes_, heads_ * d_.features);
    RowSums<Real> key(nodes_, heads_ * d_.features);
    RowSums<Real> value(nodes_, heads_ * width_);
    for (Index n = 0; n < nodes_; ++n) {
      const auto& edges = incoming_[static_cast<std::size_t>(n)];
      std::vector<GraphRow<Real>> rows;
      for (Index h = 0; h < heads_; ++h)
        rows.emplace_back(forward_, numbers, GraphPlace{n, h}, edges);
      for (Index h = 0; h < heads_; ++h) {
        const std::vector<Number> of_head = grad_of_head(rows, grad.row(n), h);
        add_head_weight(rows, grad.row(n), h);
        add_row(numbers, rows[static_cast<std::size_t>(h)], of_head, {n, h}, last, query, key,
                value);
      }
    }
    const Wide roundings = kGradientRoundings<Real>;
    const Rows of_query = query.finished(scale_over_temperature(), roundings);
    const Rows of_key = key.finished(scale_over_temperature(), roundings);
    const Rows of_value = value.finished({1, 0}, roundings);
    if (d_.inputs == HEED_GRAPH_PROJECTED) {
      if (gradients_[kGraphQuery].asked()) add_all(kGraphQuery, of_query);
      if (gradients_[kGraphKey].asked()) add_all(kGraphKey, of_key);
      if (gradients_[kGraphValue].asked()) add_all(kGraphValue, of_value);
      return grad;  // of data that is a residual alone
    }
    return project_back(data, of_query, of_key, of_value, grad);
  }

  /// What reaches a head's result.
  std::vector<Number> grad_of_head(const std::vector<GraphRow<Real>>& rows, const Number* grad,
                                   Index h) const {
    std::vector<Number> all;
    for (Index x = 0; x < width_; ++x) {
      switch (d_.combine) {
        case HEED_COMBINE_CONCAT:
          all.push_back(grad[h * width_ + x]);
          break;
        case HEED_COMBINE_WEIGHTED:
          all.push_back(product<Real>(grad[x], exact(head_weight(h))));
          break;
        case HEED_COMBINE_MEAN:
          all.push_back(product<Real>(grad[x], constant<Real>(1 / static_cast<Wide>(heads_))));
          break;
        default:
          all.push_back(grad_of_largest(rows, grad[x], h, x));
      }
    }
    return all;
  }

  Wide head_weight(Index h) const {
    return static_cast<Wide>(forward_.inputs[kGraphHeadWeights].at(0, 0, 0, h));
  }

  static Number grad_of_largest(const std::vector<GraphRow<Real>>& rows, const Number& grad,
                                Index h, Index x) {
    Heads<Wide> heads;
    for (const GraphRow<Real>& row : rows) {
      heads.push_back(row.result(x));
      if (std::isnan(heads.back().value)) return kUnbounded<Wide>;
    }
    return gradient_of_largest(heads, static_cast<std::size_t>(h), grad);
  }

  void add_head_weight(const std::vector<GraphRow<Real>>& rows, const Number* grad, Index h) {
    Gradient<Real>& to = gradients_[kGraphHeadWeights];
    for (Index x = 0; to.asked() && x < width_; ++x)
      to.at(0, 0, 0, h).add(product<Real>(grad[x], rows[static_cast<std::size_t>(h)].result(x)));
  }

  void add_row(const GraphNumbers<Wide>& numbers, const GraphRow<Real>& row,
               const std::vector<Number>& grad, const GraphPlace& at, bool last,
               RowSums<Real>& query, RowSums<Real>& key, RowSums<Real>& value) {
    BoundedSum<Real> minus_delta;
    for (Index x = 0; x < width_; ++x) {
      Number term = product<Real>(grad[static_cast<std::size_t>(x)], row.result(x));
      term.value = -term.value;
      minus_delta.add(term);
    }
    if (last && given_.gradients.lse.data != nullptr) minus_delta.add(grad_lse(at));
    add_nothing(numbers, row, grad, at.head);
    for (std::size_t j = 0; j < row.attended().size(); ++j)
      add_edge(numbers, row, grad, at, j, minus_delta, query, key, value);
  }

  /// Converted to the arithmetic's type first.
  Number grad_lse(const GraphPlace& at) const {
    const Wide x = static_cast<Wide>(given_.gradients.lse.at(0, at.head, at.node, 0));
    return {x, A::kUnit * std::fabs(x)};
  }

  void add_edge(const GraphNumbers<Wide>& numbers, const GraphRow<Real>& row,
                const std::vector<Number>& grad, const GraphPlace& at, std::size_t j,
                BoundedSum<Real> gradient, RowSums<Real>& query, RowSums<Real>& key,
                RowSums<Real>& value) {
    const Index e = row.attended()[j];
    const Index m = forward_.edges.sources[static_cast<std::size_t>(e)];
    const Index h = at.head;
    const EdgeTerms<Wide>& to_key = numbers.edge_key;
    const EdgeTerms<Wide>& to_value = numbers.edge_value;
    const auto g = [&](Index x) { return grad[static_cast<std::size_t>(x)]; };
    const auto of_kept = [&](const Number& n) {
      const Wide kept = dropout_keeps(d_.dropout);
      return d_.dropout == 0 ? n : product<Real>(n, constant<Real>(1 / kept));
    };
    for (Index x = 0; x < (row.dropped(j) ? 0 : width_); ++x) {
      gradient.add(of_kept(product<Real>(g(x), row.value_of(j, x))));
      for (Index c = 0; to_value.given() && c < to_value.width; ++c)
        gradient.add(of_kept(product<Real>(g(x), through(to_value, e, c, h * width_ + x))));
    }
    const Number p = row.weight_by_lse(j);
    const Number weight = of_kept(row.dropped(j) ? Number{0, 0} : p);
    // A score of -inf passes on 0, which times an infinity is NaN.
    // Beside infinities a node may have no weights at all, and then nothing reaches its scores.
    const bool vague = d_.score != HEED_SCORE_DOT && is_unspecified(p);
    const Number biased = row.excluded(j) ? Number{0, 0}
                          : vague         ? kUnbounded<Wide>
                                          : product<Real>(p, gradient.result(4));
    if (gradients_[kGraphEdgeBias].asked())
      gradients_[kGraphEdgeBias]
          .at(0, h, e, 0)
          .add(product<Real>(biased, constant<Real>(1 / temperature())));
    const Number s = d_.softcap == 0 ? biased : product<Real>(biased, row.slope_of_cap(j));
    if (row.is_cosine()) {
      add_cosine(row, at, j, s, query, key);
    } else if (d_.score != HEED_SCORE_DOT) {
      add_activated(to_key, row, at, j, s, query, key);
    } else {
      add_products(to_key, row, at, j, s, query, key);
    }
    for (Index x = 0; x < width_; ++x) value.at(m, h * width_ + x).add(product<Real>(weight, g(x)));
    if (to_value.given()) add_edge_terms(to_value, kGraphWEdgeValue, e, h, width_, weight, g);
  }

  /// What reaches the score <q, k> of an edge.
  void add_products(const EdgeTerms<Wide>& to_key, const GraphRow<Real>& row, const GraphPlace& at,
                    std::size_t j, const Number& s, RowSums<Real>& query, RowSums<Real>& key) {
    const Index e = row.attended()[j];
    const Index m = forward_.edges.sources[static_cast<std::size_t>(e)];
    for (Index x = 0; x < d_.features; ++x) {
      const Index column = at.head * d_.features + x;
      query.at(at.node, column).add(product<Real>(s, row.key_of(j, x)));
      for (Index c = 0; to_key.given() && c < to_key.width; ++c)
        query.at(at.node, column).add(product<Real>(s, through(to_key, e, c, column)));
      key.at(m, column).add(product<Real>(s, row.query_of(x)));
    }
    if (to_key.given())
      add_edge_terms(to_key, kGraphWEdgeKey, e, at.head, d_.features,
                     product<Real>(s, scale_over_temperature()),
                     [&](Index x) { return row.query_of(x); });
  }

  /// What reaches the score <a, act(z)> of an edge. A gradient of 0 adds 0, whatever z is.
  void add_activated(const EdgeTerms<Wide>& to_key, const GraphRow<Real>& row, const GraphPlace& at,
                     std::size_t j, const Number& s, RowSums<Real>& query, RowSums<Real>& key) {
    const Index e = row.attended()[j];
    const Index m = forward_.edges.sources[static_cast<std::size_t>(e)];
    const Number scaled_s = product<Real>(s, scale_over_temperature());
    // A gradient that nobody knows may be 0, beside which heed leaves out what is not a number.
    const bool vague = is_unspecified(s);
    const auto slope = [&](Index x) {
      if (vague) return kUnbounded<Wide>;
      return product<Real>(row.weight_of(x), is_zero(s) ? Number{0, 0} : row.slope_of(j, x));
    };
    for (Index x = 0; !is_zero(s) && x < d_.features; ++x) {
      const Index column = at.head * d_.features + x;
      query.at(at.node, column).add(product<Real>(s, slope(x)));
      key.at(m, column).add(product<Real>(s, slope(x)));
      if (gradients_[kGraphScoreWeights].asked())
        gradients_[kGraphScoreWeights]
            .at(0, 0, 0, column)
            .add(vague ? kUnbounded<Wide> : product<Real>(scaled_s, row.act_of(j, x)));
    }
    if (to_key.given())
      add_edge_terms(to_key, kGraphWEdgeKey, e, at.head, d_.features, scaled_s, slope);
  }

  /// What reaches the cosine of an edge.
  void add_cosine(const GraphRow<Real>& row, const GraphPlace& at, std::size_t j, const Number& s,
                  RowSums<Real>& query, RowSums<Real>& key) {
    if (is_zero(s)) return;
    const Index m = forward_.edges.sources[static_cast<std::size_t>(row.attended()[j])];
    const UnitRow<Wide> unit_key = row.unit_key(j);
    const Cosine<Real> cosine(row.unit_query(), unit_key);
    const Number weighed = product<Real>(s, exact(row.head_weight()));
    const Index first = at.head * d_.features;
    cosine.add_query(weighed,
                     [&](Index x) -> BoundedSum<Real>& { return query.at(at.node, first + x); });
    cosine.add_key(weighed, [&](Index x) -> BoundedSum<Real>& { return key.at(m, first + x); });
    if (!gradients_[kGraphScoreWeights].asked()) return;
    const Number scaled_s = product<Real>(s, scale_over_temperature());
    gradients_[kGraphScoreWeights]
        .at(0, 0, 0, at.head)
        .add(product<Real>(scaled_s, cosine.value()),
             2 * (std::fabs(scaled_s.value) + scaled_s.bound));
  }

  Wide temperature() const { return d_.temperature != 0 ? static_cast<Wide>(d_.temperature) : 1; }

  /// From what reaches z = s / temperature to queries and keys: one constant, as in
  /// backward_row.hpp, 3.
  Number scale_over_temperature() const {
    return constant<Real>(scale_of<Wide>(d_) / temperature());
  }

  /// Matrices over edge data see sums over each node's edges, which are 0 where it has none: that
  /// times what is not finite is NaN.
  void add_nothing(const GraphNumbers<Wide>& numbers, const GraphRow<Real>& row,
                   const std::vector<Number>& grad, Index h) {
    const auto add = [&](GraphGradientOf of, bool given, Index column, const Number& with) {
      if (!given || !gradients_[of].asked() || std::isfinite(with.value)) return;
      for (Index c = 0; c < d_.edge_width; ++c)
        gradients_[of].at(0, 0, c, column).add(kUnbounded<Wide>);
    };
    for (Index x = 0; d_.score == HEED_SCORE_DOT && x < d_.features; ++x)
      add(kGraphWEdgeKey, numbers.edge_key.given(), h * d_.features + x, row.query_of(x));
    for (Index x = 0; x < width_; ++x)
      add(kGraphWEdgeValue, numbers.edge_value.given(), h * width_ + x,
          grad[static_cast<std::size_t>(x)]);
  }

  /// f_c W_c, rounded once.
  Number through(const EdgeTerms<Wide>& terms, Index e, Index c, Index column) const {
    return product<Real>(terms.feature(e, c), terms.weight(c, column));
  }

  /// heed sums over edges or multiplies with the matrix first: nobody knows how infinities meet.
  static Number sure(const Number& x) { return std::isfinite(x.value) ? x : kUnbounded<Wide>; }

  /// What an edge's data and its matrix get, where weight times `with` reaches the product of both.
  template <class With>
  void add_edge_terms(const EdgeTerms<Wide>& terms, GraphGradientOf of, Index e, Index h,
                      Index features, const Number& weight, With&& with) {
    for (Index c = 0; c < terms.width; ++c)
      for (Index x = 0; x < features; ++x) {
        const Index column = h * features + x;
        const Number reached = product<Real>(weight, with(x));
        if (gradients_[of].asked())
          gradients_[of].at(0, 0, c, column).add(sure(product<Real>(reached, terms.feature(e, c))));
        if (gradients_[kGraphEdgeData].asked())
          gradients_[kGraphEdgeData]
              .at(0, 0, e, c)
              .add(sure(product<Real>(reached, terms.weight(c, column))));
      }
  }

  // ---- Projections ----

  Rows project_back(const Rows& data, const Rows& query, const Rows& key, const Rows& value,
                    const Rows& grad) {
    RowSums<Real> sums(nodes_, d_.width);
    add_projection(kGraphWQuery, kGraphBQuery, data, query, sums);
    add_projection(kGraphWKey, kGraphBKey, data, key, sums);
    add_projection(kGraphWValue, kGraphBValue, data, value, sums);
    for (Index n = 0; d_.residual != 0 && n < nodes_; ++n)
      for (Index x = 0; x < d_.width; ++x) sums.at(n, x).add(grad.row(n)[x]);
    return sums.finished({1, 0}, 2);
  }

  void add_projection(GraphGradientOf of, GraphGradientOf of_bias, const Rows& data,
                      const Rows& grad, RowSums<Real>& sums) {
    const Source& w = forward_.inputs[of];
    const bool per_node = d_.inputs == HEED_GRAPH_PER_NODE;
    for (Index n = 0; n < nodes_; ++n)
      for (Index o = 0; o < grad.columns; ++o) {
        const Number& g = grad.row(n)[o];
        if (gradients_[of_bias].asked()) gradients_[of_bias].at(0, 0, 0, o).add(g);
        for (Index i = 0; i < d_.width; ++i) {
          const Wide weight = static_cast<Wide>(w.at(per_node ? n : 0, 0, i, o));
          sums.at(n, i).add(product<Real>(g, exact(weight)));
          if (gradients_[of].asked())
            gradients_[of].at(per_node ? n : 0, 0, i, o).add(product<Real>(g, data.row(n)[i]));
        }
      }
  }

  const GraphBackwardGiven& given_;
  const GraphGiven& forward_;
  const heed_graph_attention_desc& d_;
  const Index nodes_, heads_, width_;
  const std::uint32_t real_;
  const std::vector<std::vector<Index>> incoming_;
  std::array<Gradient<Real>, kGraphGradients> gradients_;
};

}  // namespace

void EdgeList::add(Index source, Index destination) {
  sources.push_back(source);
  destinations.push_back(destination);
}

std::vector<std::vector<Index>> incoming(const EdgeList& edges) {
  std::vector<std::vector<Index>> into(static_cast<std::size_t>(edges.nodes));
  for (Index e = 0; e < edges.size(); ++e)
    into[static_cast<std::size_t>(edges.destinations[static_cast<std::size_t>(e)])].push_back(e);
  const auto source = [&](Index e) { return edges.sources[static_cast<std::size_t>(e)]; };
  for (std::vector<Index>& all : into) {
    std::sort(all.begin(), all.end(), [&](Index a, Index b) {
      return std::make_pair(source(a), a) < std::make_pair(source(b), b);
    });
    if (edges.unique)
      all.erase(std::unique(all.begin(), all.end(),
                            [&](Index a, Index b) { return source(a) == source(b); }),
                all.end());
  }
  return into;
}

Expected expect(const GraphGiven& given) {
  return is_float64(given.desc) ? GraphOracle<double>(given).run()
                                : GraphOracle<float>(given).run();
}

ExpectedGraphGradients expect_gradients(const GraphBackwardGiven& given) {
  return is_float64(given.forward.desc) ? GraphBackwardOracle<double>(given).run()
                                        : GraphBackwardOracle<float>(given).run();
}

}  // namespace heed_test
