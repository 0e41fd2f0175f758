// Random graphs and attention over them, drawn in this order: edges, a valid descriptor, then the
// numbers of a problem made from it. Each option is drawn on its own, so that any may meet any
// other.
#pragma once

#include "tests/problem/draw.hpp"
#include "tests/problem/graph_backward.hpp"

namespace heed_test {

/// Graphs of any kind; with one node of so many edges that it is cut into pieces; as small as
/// fuzzers have them; or with as many edges, heads and features as vectors and panels end about.
enum class Graphs { kAny, kHub, kSmall, kEdges };
/// Scores that are products, as older builds know them, or any.
enum class Scores { kAny, kProducts };

/// A graph, and how it is handed in: `reverse` for gradients.
EdgeList draw_edges(Draw& draw, Graphs graphs, bool reverse);
GraphForm draw_graph_form(Draw& draw, EdgeList& edges, bool reverse);

heed_graph_attention_desc draw_graph_attention(Draw& draw, const EdgeList& edges, Graphs graphs,
                                               Scores scores = Scores::kAny);
heed_graph_attention_backward_desc draw_backward(Draw& draw,
                                                 const heed_graph_attention_desc& attention,
                                                 const EdgeList& edges);

/// What a run may have besides what it needs, and the numbers of all.
void draw_numbers(Draw& draw, GraphProblem& p);

GraphProblem draw_graph_problem(Draw& draw, Graphs graphs = Graphs::kAny);
GraphProblem draw_graph_problem(std::uint64_t seed, Graphs graphs = Graphs::kAny,
                                Scores scores = Scores::kAny);
template <Graphs graphs, Scores scores = Scores::kAny>
GraphProblem drawn(std::uint64_t seed) {
  return draw_graph_problem(seed, graphs, scores);
}
/// Of a form that has gradients.
GraphProblem draw_differentiable_graph(std::uint64_t seed);
GraphBackwardProblem draw_graph_backward(std::uint64_t seed, Graphs graphs = Graphs::kAny);

}  // namespace heed_test
