#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/problem/random_problems.hpp"

namespace heed_test {
namespace {

// ---- Edges ----

/// Self-loops, and an edge from each node to the next.
EdgeList chain(Index nodes) {
  EdgeList edges{nodes, {}, {}, false};
  for (Index n = 0; n < nodes; ++n) edges.add(n, n);
  for (Index n = 0; n + 1 < nodes; ++n) edges.add(n, n + 1);
  return edges;
}

EdgeList draw_kind(Draw& draw, Index nodes, Graphs graphs) {
  if (nodes == 0 || draw.one_in(25)) return {nodes, {}, {}, false};
  const bool small = graphs == Graphs::kSmall;
  const std::uint32_t kind = draw.choice(9);
  const Index hub = draw.integer(0, nodes - 1);
  const std::uint64_t seed = draw.bits();
  if (graphs == Graphs::kHub) {
    const Index power = draw.pick<Index>({8192, 16384, 32768}) + draw.integer(-1, 1);
    const Index edges = draw.one_in(3) ? power : draw.integer(8000, 40000);
    EdgeList list = hub_graph(nodes, edges, hub, seed);
    if (edges == power) std::fill(list.destinations.begin(), list.destinations.end(), hub);
    if (draw.one_in(2))  // gradients go the other way
      for (std::size_t e = 0; e < list.sources.size(); e += 2) list.sources[e] = hub;
    return list;
  }
  if (graphs == Graphs::kEdges) {
    EdgeList list = random_edges(nodes, draw.integer(1, 140), seed);
    std::fill(list.destinations.begin(), list.destinations.end(), hub);
    return list;
  }
  switch (kind) {
    case 1:  // more edges than are scored at once
      return hub_graph(nodes, draw.integer(40, small ? 70 : 300), hub, seed);
    case 2:
      return complete_graph(std::min<Index>(nodes, small ? 4 : 12));
    case 3:
      return chain(nodes);
    case 4:  // many duplicates
      return random_edges(std::min<Index>(nodes, 4), draw.integer(1, small ? 12 : 60), seed);
    default:
      return random_edges(nodes, draw.integer(0, (small ? 2 : 4) * nodes), seed);
  }
}

// ---- Descriptors ----

Index draw_features(Draw& draw) {
  if (draw.one_in(10)) return draw.integer(25, 90);
  if (draw.one_in(4)) return draw.pick<Index>({1, 2, 4, 8, 16});
  return draw.integer(1, 24);
}

/// Small enough that thousands of them take some seconds, or fuzzers compute them at all.
void limit_work(heed_graph_attention_desc& d, const EdgeList& edges, Index most) {
  const auto work = [&] {
    return (edges.size() + edges.nodes) * d.heads * (d.features + value_features_of(d));
  };
  if (work() > most) d.heads = std::min<Index>(d.heads, 3);
  if (work() > most) d.features = std::min<Index>(d.features, 9);
  if (work() > most) d.value_features = std::min<Index>(value_features_of(d), 7);
}

void draw_options(Draw& draw, const EdgeList& edges, heed_graph_attention_desc& d) {
  d.inputs = draw.pick<std::uint32_t>(
      {HEED_GRAPH_PROJECTED, HEED_GRAPH_PROJECTED, HEED_GRAPH_SHARED, HEED_GRAPH_PER_NODE});
  if (edges.source_nodes > 0) d.inputs = HEED_GRAPH_PROJECTED;
  // Each node may have matrices as wide as they are long.
  constexpr Index kWidest = 100;
  if (d.inputs != HEED_GRAPH_PROJECTED && d.heads * value_features_of(d) > kWidest)
    d.heads = std::max<Index>(kWidest / value_features_of(d), 1);
  if (draw.one_in(2)) d.combine = draw.choice(HEED_COMBINE_MAX);
  d.residual = draw.one_in(3) ? 1 : 0;
  const Index row = out_heads_of(d) * value_features_of(d);
  const bool as_wide = d.residual != 0 || draw.one_in(3);
  if (has(d, kGraphData)) d.width = as_wide ? row : draw.integer(1, 20);
  if (d.inputs != HEED_GRAPH_PROJECTED && d.width == row && draw.one_in(2))
    d.steps = draw.integer(0, 3);
  if (draw.one_in(3)) d.edge_width = draw.integer(1, draw.one_in(5) ? 20 : 6);
  if (draw.one_in(3)) d.scale = draw.one_in(8) ? 1e-30 : draw.uniform(-1, 1);
  if (draw.one_in(4)) d.softcap = draw.pick<double>({0.5, 2, 5, 30, 1000, 1e4});
  if (draw.one_in(8))
    d.hard = 1;
  else if (draw.one_in(4))
    d.temperature = draw.pick<double>({0.2, 0.7, 1, 3, 1000, 1e4, kInfinity});
}

/// It follows from the sizes, so that all else is drawn as without it.
void choose_dropout(const EdgeList& edges, heed_graph_attention_desc& d) {
  constexpr double kSome[] = {0.1, 0.5, 0.25, 0.9, 1e-9, 0.999};
  if (d.hard != 0 || (d.features + edges.size()) % 6 != 1) return;
  d.dropout = kSome[edges.nodes % 6];
}

/// Likewise, edges of a larger graph, in any order there.
void number_edges(GraphProblem& p) {
  if (p.desc.dropout == 0 || p.edges.nodes % 2 == 0) return;
  Random random(static_cast<std::uint64_t>(p.desc.features + 100 * p.edges.nodes));
  for (Index e = 0; e < p.edges.size(); ++e)
    p.dropout_edges.push_back(random.integer(0, Index{1} << random.integer(0, 40)));
}

/// Scores that are no products, in one of three; cosines follow from the sizes.
void draw_score(Draw& draw, heed_graph_attention_desc& d) {
  if (!draw.from_front_one_in(3)) {
    if ((d.features + d.heads) % 4 == 3) d.score = HEED_SCORE_COSINE;
    return;
  }
  d.score = 1 + draw.from_front(1);
  d.activation = draw.from_front(HEED_ACTIVATION_TANH);
  if (d.activation == HEED_ACTIVATION_LEAKY_RELU)
    d.slope = std::array<double, 4>{0.2, 0.01, 0, -0.5}[draw.from_front(3)];
  if (d.score == HEED_SCORE_SUM) {
    d.value_features = value_features_of(d);
    d.features = 1;
  }
}

/// Of all tensors: float64, one type, or any of those that may meet.
class DrawnTypes {
 public:
  explicit DrawnTypes(Draw& draw)
      : draw_(draw),
        float64_(draw.one_in(5)),
        mixed_(draw.one_in(4)),
        all_(draw.pick<std::uint32_t>(
            {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16})) {}

  std::uint32_t operator()(std::size_t of) {
    if (of == kGraphEdgeBias || of == kGraphWeights) return draw_.dtype();
    if (of == kGraphLse)
      return draw_.pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64});
    if (float64_) return draw_.dtype(true, of != kGraphOut);
    const bool own = graph_tensor(of).rows == nullptr && draw_.one_in(3);
    return mixed_ || own ? draw_.dtype(false, true) : all_;
  }

 private:
  Draw& draw_;
  bool float64_, mixed_;
  std::uint32_t all_;
};

/// Data where out lies: a row of it has all heads side by side.
void lay_data_in_out(Draw& draw, const EdgeList& edges, heed_graph_attention_desc& d) {
  const std::uint32_t dtype = d.out.dtype;
  const Axes shape = shape_of(d, edges, kGraphData);
  LaidOut(d.data, shape, 0, Use::kWritten, true).without(0).draw(draw, dtype);
  d.out = d.data;
  d.out.stride_head = out_heads_of(d) > 1 ? value_features_of(d) * d.data.stride_feature : 0;
}

// ---- Numbers ----

void want_some(Draw& draw, GraphProblem& p) {
  const auto maybe = [&](std::size_t of, std::int64_t n) {
    if (has(p.desc, of) && draw.one_in(n)) p.add({of});
  };
  for (const std::size_t of : {kGraphBQuery, kGraphBKey, kGraphBValue}) maybe(of, 3);
  const std::uint32_t edges_to = draw.choice(2);
  const bool cosine = p.desc.score == HEED_SCORE_COSINE;
  if (edges_to != 1 && !cosine) maybe(kGraphWEdgeKey, 1);
  if (edges_to != 2 || cosine) maybe(kGraphWEdgeValue, 1);
  maybe(kGraphEdgeBias, 3);
  if (p.desc.hard == 0) maybe(kGraphLse, 2);
  maybe(kGraphWeights, 2);
}

/// As far for all edges, or for all into some nodes.
void move_biases(Draw& draw, GraphProblem& p) {
  const double far = draw.far_away(p.edge_bias->dtype());
  const bool all = draw.one_in(2);
  const bool alike = draw.one_in(2);
  p.edge_bias->each([&](const Axes& at) {
    const double x = p.edge_bias->get(at);
    const Index node = p.edges.destinations[static_cast<std::size_t>(at[2])];
    if (x != -kInfinity && (all || node % 2 == 0))
      p.edge_bias->set(at, alike || std::fabs(far) > 1e6 ? far : far + x);
  });
}

/// Another way in each head, so that references move apart.
void let_biases_climb(Draw& draw, GraphProblem& p) {
  const auto slope = draw.pick<double>({0.02, 0.08, 0.5, 5, 200, -0.08, -5, -200});
  p.edge_bias->fill([&](const Axes& at) {
    const auto step =
        static_cast<double>(at[2] % 400 / 40 * 40) + static_cast<double>(at[2] % 3) / 4;
    return slope * step * static_cast<double>(1 - at[1] % 3);
  });
}

/// Stretches of a hub's edges, which its pieces have alone: without weight, with all of it, or NaN,
/// which gradients would be everywhere.
void set_stretches(Draw& draw, GraphProblem& p, bool differentiable) {
  const Index tenth = p.edges.size() / 10 + 1;
  for (std::int64_t n = draw.integer(1, 3); n > 0; --n) {
    const Index first = draw.integer(0, 9), last = draw.integer(first, 9);
    const double finite = draw.one_in(3) ? 500 : -kInfinity;
    const double bias =
        draw.one_in(3) && !differentiable ? (draw.one_in(2) ? kInfinity : kNaN) : finite;
    p.edge_bias->set_where(
        [&](const Axes& at) { return at[2] / tenth >= first && at[2] / tenth <= last; }, bias);
  }
}

/// Few keys over and over: equal scores, of which hard attention takes that of the lowest source.
void repeat_keys(Draw& draw, GraphProblem& p) {
  const Index period = draw.integer(1, 3);
  p.key->each([&](const Axes& at) {
    if (at[2] >= period) p.key->set(at, p.key->get({at[0], at[1], at[2] % period, at[3]}));
  });
}

/// What fuzzers need not find.
void draw_odd_scores(Draw& draw, GraphProblem& p, bool differentiable) {
  const bool hub = p.edges.size() > 7000;
  if (p.edge_bias && draw.one_in(8)) let_biases_climb(draw, p);
  if (p.edge_bias && hub && draw.one_in(2)) set_stretches(draw, p, differentiable);
  if (p.key && draw.one_in(p.desc.hard != 0 ? 2 : 16)) repeat_keys(draw, p);
}

/// A bias of -inf leaves the edge out: some edges, or all into a node.
void exclude_edges(Draw& draw, GraphProblem& p) {
  const auto percent = draw.pick<std::int64_t>({5, 50, 95});
  Random random = draw.numbers();
  p.edge_bias->set_where([&](const Axes&) { return random.integer(0, 99) < percent; }, -kInfinity);
}

/// Where they do not reach everything: through elements that repeat; seldom through steps, or to
/// matrices of all nodes, which are most of a sweep's elements.
void plant_specials(Draw& draw, GraphProblem& p) {
  const bool own = p.desc.inputs == HEED_GRAPH_PER_NODE;
  if ((own || p.desc.steps > 1) && !draw.one_in(4)) return;
  std::vector<Tensor*> all;
  for (std::size_t of = 0; of < kGraphHeadWeights; ++of) {
    const bool bias = of >= kGraphBQuery && of <= kGraphBValue;
    if (p.at(of) && !bias && !p.at(of)->repeats()) all.push_back(&*p.at(of));
  }
  if (all.empty()) return;
  for (std::int64_t n = draw.integer(1, 3); n > 0; --n) draw.plant(all);
}

/// Likewise, as cosines do.
void weigh_heads(GraphProblem& p) {
  if (p.desc.score != HEED_SCORE_COSINE || p.desc.features % 3 == 0) return;
  Random random(static_cast<std::uint64_t>(p.desc.features + 100 * p.edges.nodes));
  p.add({kGraphScoreWeights});
  p.score_weights->fill([&](const Axes&) { return random.normal(); });
}

GraphProblem draw_problem(Draw& draw, Graphs graphs, bool differentiable,
                          Scores scores = Scores::kAny) {
  EdgeList edges = draw_edges(draw, graphs, differentiable);
  const GraphForm form = draw_graph_form(draw, edges, differentiable);
  heed_graph_attention_desc desc = draw_graph_attention(draw, edges, graphs, scores);
  if (differentiable) desc.hard = 0;
  GraphProblem p(edges, desc, static_cast<std::size_t>(draw.integer(0, 3)));
  p.form = form;
  draw_numbers(draw, p);
  draw_odd_scores(draw, p, differentiable);
  weigh_heads(p);
  return p;
}

}  // namespace

EdgeList draw_edges(Draw& draw, Graphs graphs, bool reverse) {
  const bool small = graphs == Graphs::kSmall;
  const Index nodes = draw.one_in(8) ? draw.integer(0, 2) : draw.integer(1, small ? 10 : 30);
  EdgeList edges = draw_kind(draw, nodes, graphs);
  edges.unique = draw.one_in(2);
  if (reverse || !draw.one_in(8)) return edges;
  edges.source_nodes = draw.integer(1, small ? 10 : 50);
  Random random = draw.numbers();
  for (Index& m : edges.sources) m = random.integer(0, edges.source_nodes - 1);
  return edges;
}

GraphForm draw_graph_form(Draw& draw, EdgeList& edges, bool reverse) {
  const bool rows = draw.one_in(2);
  if (rows) edges = by_destination(edges);
  return {rows, draw.choice(HEED_INDEX_I64), reverse};
}

heed_graph_attention_desc draw_graph_attention(Draw& draw, const EdgeList& edges, Graphs graphs,
                                               Scores scores) {
  heed_graph_attention_desc d = HEED_GRAPH_ATTENTION_DESC_INIT;
  d.heads = draw.pick<Index>({1, 1, 1, 2, 3, 4, 5, 8, 17, 30});
  d.features = draw_features(draw);
  d.value_features = draw.one_in(8) ? 0 : draw_features(draw);
  if (graphs == Graphs::kEdges) d.heads = draw.integer(1, 70);
  if (graphs == Graphs::kEdges) d.features = draw.integer(1, 70);
  if (graphs != Graphs::kEdges) limit_work(d, edges, graphs == Graphs::kSmall ? 500 : 8000);
  if (scores == Scores::kAny) draw_score(draw, d);
  draw_options(draw, edges, d);
  choose_dropout(edges, d);
  DrawnTypes type(draw);
  for (std::size_t of = 0; of < kGraphTensors; ++of) {
    const bool vector = graph_tensor(of).rows == nullptr && graph_tensor(of).matrix == nullptr;
    if (has(d, of) && !vector) laid_out(d, edges, of).draw(draw, type(of));
  }
  if (d.inputs == HEED_GRAPH_SHARED) d.bias_dtype = type(kGraphBKey);
  if (draw.one_in(3)) d.edge_bias = {d.edge_bias.dtype, 0, 0, 0, 1, 0};  // one for all heads
  const bool alike = has(d, kGraphData) && d.width == out_heads_of(d) * value_features_of(d);
  if (alike && draw.one_in(2)) lay_data_in_out(draw, edges, d);
  return d;
}

heed_graph_attention_backward_desc draw_backward(Draw& draw, const heed_graph_attention_desc& d,
                                                 const EdgeList& edges) {
  heed_graph_attention_backward_desc g = HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT;
  g.attention = &d;
  g.accumulate = draw.one_in(4) ? 1 : 0;
  draw_layouts(draw, laid_out(g, edges), [&](std::size_t of) {
    // What several steps add to is summed where it lies.
    const bool summed =
        d.steps > 1 && (of == kGraphEdgeData || of == kGraphEdgeBias || has_own(d, of));
    if (of == kGraphEdgeBias && !summed) return draw.dtype();
    if (of == kGraphEdgeBias) return draw.pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F64});
    return summed ? std::uint32_t{HEED_DTYPE_DEFAULT} : draw.dtype(is_float64(d), true);
  });
  return g;
}

void draw_numbers(Draw& draw, GraphProblem& p) {
  want_some(draw, p);
  if (p.desc.inputs == HEED_GRAPH_SHARED)
    for (bool& prepared : p.prepared) prepared = draw.one_in(4);
  p.in_place = p.may_lie_in_place() && draw.one_in(2);
  // Numbers and bounds grow with each step.
  const double most = p.desc.steps > 1 ? 0.4 : draw.one_in(4) ? 3 : 1.2;
  p.fill(draw.bits(), draw.uniform(0.1, most));
  if (p.edge_bias && draw.one_in(6)) move_biases(draw, p);
  if (p.edge_bias && draw.one_in(2)) exclude_edges(draw, p);
  if (draw.one_in(16)) plant_specials(draw, p);
  if (p.desc.dropout != 0) p.dropout_seed = draw.bits(), p.dropout_offset = draw.bits();
  number_edges(p);
}

GraphProblem draw_graph_problem(Draw& draw, Graphs graphs) {
  return draw_problem(draw, graphs, false);
}

GraphProblem draw_graph_problem(std::uint64_t seed, Graphs graphs, Scores scores) {
  Draw draw(seed);
  return draw_problem(draw, graphs, false, scores);
}

GraphProblem draw_differentiable_graph(std::uint64_t seed) {
  Draw draw(seed);
  return draw_problem(draw, Graphs::kAny, true);
}

GraphBackwardProblem draw_graph_backward(std::uint64_t seed, Graphs graphs) {
  Draw draw(seed ^ 0xbac4);
  GraphProblem forward = draw_problem(draw, graphs, true);
  const auto desc = draw_backward(draw, forward.desc, forward.edges);
  GraphBackwardProblem p(std::move(forward), desc);
  p.draw_tensors(draw);
  return p;
}

}  // namespace heed_test
