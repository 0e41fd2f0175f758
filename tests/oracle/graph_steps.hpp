// Attention over a graph, step by step.
#pragma once

#include <cmath>
#include <cstdint>

#include "tests/oracle/graph.hpp"
#include "tests/oracle/graph_row.hpp"
#include "tests/oracle/multihead_combine.hpp"

namespace heed_test {

template <class Real>
class GraphOracle {
 public:
  using Wide = typename Arithmetic<Real>::Wide;

  explicit GraphOracle(const GraphGiven& given)
      : given_(given),
        d_(given.desc),
        a_(given.args),
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
    const Index nodes = given_.edges.nodes;
    if (a_.data != nullptr) {
      const Source data = rows_source(a_.data, d_.data, 1, d_.width, real_);
      data_ = exact_rows<Wide>(data, nodes, 1, d_.width);
    }
    if (d_.inputs == HEED_GRAPH_PROJECTED) {
      const auto rows = [&](const void* from, const heed_layout& layout, Index count,
                            Index features) {
        return exact_rows<Wide>(rows_source(from, layout, d_.heads, features, real_), count,
                                d_.heads, features);
      };
      const Index sources = sources_of(given_.edges);
      numbers_.query = rows(a_.query, d_.query, given_.nodes(), d_.features);
      numbers_.key = rows(a_.key, d_.key, sources, d_.features);
      numbers_.value = rows(a_.value, d_.value, sources, width_);
    }
    numbers_.edge_key =
        edge_terms<Wide>(given_, a_.w_edge_key, d_.w_edge_key, d_.heads * d_.features);
    numbers_.edge_value =
        edge_terms<Wide>(given_, a_.w_edge_value, d_.w_edge_value, d_.heads * width_);
    numbers_.bias = rows_source(a_.edge_bias, d_.edge_bias, d_.heads, 1, real_);
  }

  void project() {
    numbers_.query = product(a_.w_query, d_.w_query, a_.b_query, d_.features);
    numbers_.key = product(a_.w_key, d_.w_key, a_.b_key, d_.features);
    numbers_.value = product(a_.w_value, d_.w_value, a_.b_value, width_);
  }

  BoundedRows<Wide> product(const void* matrix, const heed_matrix_layout& layout, const void* bias,
                            Index features) const {
    const Index columns = d_.heads * features;
    const Source source = matrix_source(matrix, layout, d_.width, columns, real_);
    const std::uint32_t bias_type = dtype_of(d_.bias_dtype, real_);
    BoundedRows<Wide> all{columns, {}};
    for (Index n = 0; n < given_.edges.nodes; ++n) {
      const Index m = d_.inputs == HEED_GRAPH_PER_NODE ? n : 0;
      for (Index o = 0; o < columns; ++o) {
        const Wide b = bias == nullptr
                           ? 0
                           : static_cast<Wide>(decode(bias_type, load_bits(bias_type, bias, o)));
        all.numbers.push_back(
            projected<Real>(data_.row(n), d_.width, source, m, o, bias == nullptr ? nullptr : &b));
      }
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
        const bool concatenated = d_.combine == HEED_COMBINE_CONCAT;
        Number number = concatenated ? results[size(h * width_ + x)] : combined(results, x);
        if (d_.residual != 0) number = sum(data_.row(n)[h * width_ + x], number);
        number = bounded<Real>(number.value, number.bound, std::fabs(number.value));
        expected_.out[out_at(n, h, x)] =
            stored(number.value, number.bound, dtype_of(d_.out.dtype, HEED_DTYPE_F32), real_);
      }
  }

  // ---- Heads into one ----

  Number combined(const std::vector<Number>& results, Index x) const {
    Heads<Wide> heads;
    std::vector<Wide> weights;
    for (Index h = 0; h < d_.heads; ++h) {
      heads.push_back(results[size(h * width_ + x)]);
      if (d_.combine == HEED_COMBINE_WEIGHTED)
        weights.push_back(static_cast<Wide>(decode(real_, load_bits(real_, a_.head_weights, h))));
    }
    if (d_.combine == HEED_COMBINE_MAX) return largest_head<Real>(heads);
    if (d_.combine == HEED_COMBINE_MEAN) return mean_of_heads<Real>(heads);
    return weighted_heads<Real>(heads, weights.data());
  }

  Number sum(const Number& a, const Number& b) const {
    const Wide value = a.value + b.value;
    if (b.value == 0 && b.bound == 0) return {value, a.bound};
    const Wide bound = a.bound + b.bound;
    if (!std::isfinite(value)) return {value, bound};
    return {value, bound + A::kUnit * (std::fabs(value) + bound)};
  }

  const GraphGiven& given_;
  const heed_graph_attention_desc& d_;
  const heed_graph_attention_args& a_;
  const std::uint32_t real_;
  const Index width_;
  const std::vector<std::vector<Index>> incoming_;
  BoundedRows<Wide> data_{0, {}};
  GraphNumbers<Wide> numbers_;
  Expected expected_;
};

}  // namespace heed_test
