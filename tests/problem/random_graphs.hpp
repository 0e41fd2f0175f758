// Random attention over random graphs: each option is drawn on its own, so that any may meet any
// other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/problem/drawing.hpp"
#include "tests/problem/graph_attention.hpp"

namespace heed_test {

/// Whether graphs are of any kind, or have one node with so many edges that it is cut into pieces.
enum class Graphs { kAny, kHub };

class RandomGraphs : Drawing {
 public:
  explicit RandomGraphs(std::uint64_t seed, Graphs graphs = Graphs::kAny)
      : Drawing(seed), graphs_(graphs) {}

  GraphProblem draw() {
    EdgeList edges = draw_edges();
    rows_ = one_in(2);
    if (rows_) edges = by_destination(edges);
    GraphProblem p(edges, heads_, draw_features(), draw_features());
    limit_work(p);
    p.misalign = static_cast<std::size_t>(random_.integer(0, 3));
    draw_inputs(p);
    draw_edge_tensors(p);
    draw_options(p);
    draw_outputs(p);
    p.fill(random_.bits(), uniform(0.1, one_in(4) ? 3 : 1.2));
    if (p.edge_bias && one_in(6)) move_biases(p);
    if (p.edge_bias && one_in(2)) exclude_edges(p);
    if (one_in(10)) plant_specials(p);
    if (p.desc.value_features == p.desc.features && one_in(3)) p.desc.value_features = 0;
    return p;
  }

  /// How the graph that was drawn is handed in.
  GraphForm form() {
    return {rows_, pick<std::uint32_t>({HEED_INDEX_DEFAULT, HEED_INDEX_I32, HEED_INDEX_I64})};
  }

 private:
  // ---- Graphs ----

  EdgeList draw_edges() {
    heads_ = pick<Index>({1, 1, 1, 2, 3, 4, 5, 8, 17, 30});
    Index nodes = random_.integer(1, 30);
    if (one_in(8)) nodes = random_.integer(0, 2);
    EdgeList edges = draw_kind(nodes);
    edges.unique = one_in(2);
    return edges;
  }

  EdgeList draw_kind(Index nodes) {
    if (nodes == 0 || one_in(25)) return {nodes, {}, {}, false};
    const std::uint64_t seed = random_.bits();
    if (graphs_ == Graphs::kHub)
      return hub_graph(nodes, random_.integer(8000, 40000), random_.integer(0, nodes - 1), seed);
    switch (random_.integer(0, 9)) {
      case 0:  // more edges than are scored at once
        return hub_graph(nodes, random_.integer(40, 300), random_.integer(0, nodes - 1), seed);
      case 1:
        return complete_graph(std::min<Index>(nodes, 12));
      case 2:
        return chain(nodes);
      case 3:  // many duplicates
        return random_edges(std::min<Index>(nodes, 4), random_.integer(1, 60), seed);
      default:
        return random_edges(nodes, random_.integer(0, 4 * nodes), seed);
    }
  }

  /// Self-loops, and an edge from each node to the next.
  EdgeList chain(Index nodes) {
    EdgeList edges{nodes, {}, {}, false};
    for (Index n = 0; n < nodes; ++n) edges.add(n, n);
    for (Index n = 0; n + 1 < nodes; ++n) edges.add(n, n + 1);
    return edges;
  }

  Index draw_features() {
    if (one_in(10)) return random_.integer(25, 90);
    if (one_in(4)) return pick<Index>({1, 2, 4, 8, 16});
    return random_.integer(1, 24);
  }

  /// Small enough that thousands of them take some seconds.
  void limit_work(GraphProblem& p) {
    const auto work = [&] {
      return (p.edges.size() + p.edges.nodes) * p.desc.heads *
             (p.desc.features + p.desc.value_features);
    };
    if (work() > 8000) p.desc.heads = std::min<Index>(p.desc.heads, 3);
    if (work() > 8000) p.desc.features = std::min<Index>(p.desc.features, 9);
    if (work() > 8000) p.desc.value_features = std::min<Index>(p.desc.value_features, 7);
  }

  // ---- Inputs ----

  std::uint32_t narrow() {
    return pick<std::uint32_t>(
        {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16});
  }
  void draw_types() {
    const std::int64_t kind = random_.integer(0, 9);
    float64_ = kind < 2;
    mixed_ = kind == 2 || kind == 3;
    type_ = HEED_DTYPE_DEFAULT;
    if (float64_) type_ = HEED_DTYPE_F64;
    if (kind == 4) type_ = HEED_DTYPE_BF16;
    if (kind == 5) type_ = HEED_DTYPE_F16;
  }
  std::uint32_t type() { return mixed_ ? narrow() : type_; }
  /// Of what defaults to the arithmetic's type and may not leave it.
  std::uint32_t matrix_type() {
    if (float64_) return one_in(2) ? HEED_DTYPE_DEFAULT : HEED_DTYPE_F64;
    return one_in(3) ? narrow() : type_;
  }
  /// Of what may have any type.
  std::uint32_t any_type() { return static_cast<std::uint32_t>(random_.integer(0, 4)); }

  void draw_inputs(GraphProblem& p) {
    draw_types();
    p.desc.inputs = pick<std::uint32_t>(
        {HEED_GRAPH_PROJECTED, HEED_GRAPH_PROJECTED, HEED_GRAPH_SHARED, HEED_GRAPH_PER_NODE});
    p.desc.combine = static_cast<std::uint32_t>(one_in(2) ? 0 : random_.integer(0, 3));
    if (p.desc.combine == HEED_COMBINE_WEIGHTED)
      p.head_weights.numbers.resize(static_cast<std::size_t>(p.desc.heads));
    const bool projected = p.desc.inputs == HEED_GRAPH_PROJECTED;
    p.desc.residual = one_in(3) ? 1 : 0;
    const Index row = out_heads_of(p.desc) * p.desc.value_features;
    const Index columns = p.desc.residual != 0 || one_in(3) ? row : random_.integer(1, 20);
    if (projected) {
      const std::vector<Arrangement> at = {draw_arrangement(), draw_arrangement(),
                                           draw_arrangement()};
      p.add_projected({type(), type(), type()}, at);
      if (p.desc.residual != 0) p.add_data(columns, type(), draw_arrangement());
    } else {
      p.add_data(columns, type(), draw_arrangement());
      draw_matrices(p);
    }
    if (!projected && columns == row && one_in(2)) p.desc.steps = random_.integer(1, 3);
  }

  void draw_matrices(GraphProblem& p) {
    p.add_matrices(matrix_type(), draw_arrangement());
    if (p.desc.inputs != HEED_GRAPH_SHARED) return;
    p.desc.bias_dtype = matrix_type();
    for (Weighting* const w : {&p.w_query, &p.w_key, &p.w_value}) {
      if (one_in(3)) p.add_matrix_bias(*w);
      w->prepared = one_in(4);
    }
  }

  void draw_edge_tensors(GraphProblem& p) {
    if (one_in(3)) {
      p.add_edge_data(random_.integer(1, one_in(5) ? 20 : 6), type(), draw_arrangement());
      if (!one_in(3)) p.add_edge_keys(matrix_type(), draw_arrangement());
      if (!p.w_edge_key || !one_in(3)) p.add_edge_values(matrix_type(), draw_arrangement());
    }
    if (!one_in(3)) return;
    if (one_in(3))
      p.add_shared_edge_bias(any_type());
    else
      p.add_edge_bias(any_type(), draw_arrangement());
  }

  void draw_options(GraphProblem& p) {
    if (one_in(3)) p.desc.scale = uniform(-1, 1);
    if (one_in(4)) p.desc.softcap = pick<double>({0.5, 2, 5, 30, 1000});
    if (one_in(8))
      p.desc.hard = 1;
    else if (one_in(4))
      p.desc.temperature = pick<double>({0.2, 0.7, 1, 3, 1000, kInfinity});
  }

  // ---- Outputs ----

  void draw_outputs(GraphProblem& p) {
    const bool alike = p.data && p.data->shape()[3] == out_heads_of(p.desc) * p.desc.value_features;
    const bool flat = out_heads_of(p.desc) == 1;
    if (alike && (flat || is_default(p.desc.data)) && one_in(2)) {
      p.in_place = true;
      p.out = Tensor(out_shape(p), out_strides(p), p.misalign, p.data->dtype());
      p.desc.out = p.desc.data;
    } else {
      p.add_out(type(), draw_arrangement());
    }
    if (p.desc.hard == 0 && one_in(2))
      p.want_lse(pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64}),
                 draw_arrangement());
    if (one_in(2)) p.want_weights(any_type(), draw_arrangement());
  }

  static bool is_default(const heed_layout& layout) {
    return layout.stride_head == 0 && layout.stride_row == 0 && layout.stride_feature == 0;
  }
  static Axes out_shape(const GraphProblem& p) {
    return {1, out_heads_of(p.desc), p.edges.nodes, p.desc.value_features};
  }
  static Axes out_strides(const GraphProblem& p) {
    if (out_heads_of(p.desc) == 1) return p.data->strides();
    return strides_of(Arrangement::kRowsOutside, out_shape(p));
  }

  // ---- Infinities and NaN ----

  /// A bias of -inf leaves the edge out: some edges, or all into a node.
  void exclude_edges(GraphProblem& p) {
    const auto percent = pick<std::int64_t>({5, 50, 95});
    p.edge_bias->each([&](const Axes& at) {
      if (random_.integer(0, 99) < percent) p.edge_bias->set(at, -kInfinity);
    });
  }

  /// As far for all edges, or for all into some nodes.
  void move_biases(GraphProblem& p) {
    const double far = draw_far(p.edge_bias->dtype());
    const bool all = one_in(2);
    const bool alike = one_in(2);
    p.edge_bias->each([&](const Axes& at) {
      const double x = p.edge_bias->get(at);
      const Index node = p.edges.destinations[static_cast<std::size_t>(at[2])];
      if (x != -kInfinity && (all || node % 2 == 0))
        p.edge_bias->set(at, alike || std::fabs(far) > 1e6 ? far : far + x);
    });
  }

  void plant_specials(GraphProblem& p) {
    std::vector<Tensor*> all;
    for (auto* const tensor : {&p.query, &p.key, &p.value, &p.data, &p.edge_data, &p.edge_bias,
                               &p.w_query.matrix, &p.w_key.matrix, &p.w_value.matrix})
      if (*tensor) all.push_back(&**tensor);
    for (std::int64_t n = random_.integer(1, 3); n > 0; --n) plant(*pick(all));
  }

  Graphs graphs_;
  Index heads_ = 1;
  bool rows_ = false;
  bool float64_ = false, mixed_ = false;
  std::uint32_t type_ = HEED_DTYPE_DEFAULT;
};

}  // namespace heed_test
