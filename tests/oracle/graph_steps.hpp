// Attention over a graph, step by step.
#pragma once

#include <cmath>
#include <cstdint>

#include "tests/oracle/graph.hpp"
#include "tests/oracle/graph_row.hpp"
#include "tests/oracle/multihead_combine.hpp"
#include "tests/oracle/project.hpp"

namespace heed_test {

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

}  // namespace heed_test
