// Random attention, blocks and graphs of every form, and gradients of each: an option is drawn on
// its own, so that any may meet any other. First a descriptor, and of graphs their edges before
// that; then all that else belongs to a run.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/problem/block.hpp"
#include "tests/problem/draw.hpp"
#include "tests/problem/graph_attention.hpp"

namespace heed_test {

// ---- Attention ----

/// Whether keys may be as many as they like, are the queries' own rows, are thousands for few
/// queries, or some hundreds for so few that rows are decoded, where they lie, on most instruction
/// sets; or as any, for so many heads that ranks share them, or so small that fuzzers run thousands
/// of them in a second, nothing at all among them. Or sizes are those about which vectors, panels
/// and steps of keys end; scores are such as random numbers do not have; or there is so much of one
/// or the other that threads share it.
enum class Lengths { kAny, kSelf, kLong, kFew, kShared, kSmall, kEdges, kScores, kLarge };

/// Forms with gradients have no outputs but out and lse; those of blocks have heads, and neither
/// pages nor layouts of query, key, value and out.
struct Forms {
  Lengths lengths = Lengths::kAny;
  bool differentiable = false;
  bool of_block = false;
};

/// Whether windows and ALiBi know where rows stand.
inline bool stands(const heed_attention_desc& d) {
  return d.causal != HEED_CAUSAL_NONE || d.alignment != HEED_ALIGNMENT_DEFAULT ||
         d.query_length == d.key_length;
}

/// A valid descriptor.
heed_attention_desc draw_attention(Draw& draw, const Forms& forms = {});
/// Valid numbers and arrays of a run, and which outputs it has.
void draw_arrays(Draw& draw, const Forms& forms, Problem& problem);
Problem draw_problem(Draw& draw, const Forms& forms = {});

heed_attention_backward_desc draw_backward(Draw& draw, const heed_attention_desc& attention);

/// A problem of a seed.
Problem draw_problem(std::uint64_t seed, const Forms& forms = {});
template <Lengths lengths>
Problem drawn(std::uint64_t seed) {
  return draw_problem(seed, {lengths});
}

/// One with gradients that are asked for and lie anyhow. out and lse are yet to be set.
BackwardProblem draw_backward(std::uint64_t seed, Lengths lengths = Lengths::kAny);

/// The options that a problem has, in words.
std::vector<const char*> options_of(const Problem& p);

// ---- Blocks: an attention of any form inside ----

/// A valid descriptor of a block around an attention; kSelf: one whose input_key may be NULL.
heed_multihead_desc draw_block_desc(Draw& draw, const heed_attention_desc& attention,
                                    Lengths lengths);
/// Valid numbers of a run, and which matrices have biases and are prepared.
void draw_arrays(Draw& draw, Block& block);

heed_multihead_backward_desc draw_backward(Draw& draw, const heed_multihead_desc& block);

/// A block of a seed; those that are differentiable have no outputs except out and lse.
Block draw_block(std::uint64_t seed);
Block draw_differentiable_block(std::uint64_t seed);

/// A random block with gradients that are asked for and lie anyhow.
BlockBackward draw_block_backward(std::uint64_t seed);

// ---- Graphs ----

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
