// Gradients of dense attention, blocks and graphs where random problems do not go: factors without
// a reciprocal, matrices over more rows than are taken at a time, what a block keeps, and ties.
#include "tests/graph/problems.hpp"
#include "tests/operations/operations.hpp"

using namespace heed_test;

namespace {

Sizes grouped(Index queries, Index keys, const Types& types = {}) {
  Sizes sizes = {queries, keys, 12, 9, 2, 6, 2};
  sizes.types = types;
  return sizes;
}

Block block_of(std::uint32_t combine) {
  heed_multihead_desc desc = block_desc(HEED_DTYPE_F32, 13);
  desc.combine = combine;
  desc.width_key = 9;
  desc.width_out = 10;
  Block block = plain_block(11, 17, 4, 6, desc, 2, 2, 5);
  block.fill(30 + combine);
  return block;
}

GraphProblem with_everything(EdgeList edges, std::uint32_t inputs, const Types& types = {}) {
  heed_graph_attention_desc d = of_data(inputs, 3, 2, 5, 3);
  d.softcap = 15;
  d.temperature = 0.8;
  d.residual = 1;
  d.combine = HEED_COMBINE_WEIGHTED;
  d.steps = inputs == HEED_GRAPH_PROJECTED ? 1 : 2;
  set_types(d, types);
  GraphProblem p(std::move(edges), d);
  add_edge_tensors(p, 3, types.query);
  p.fill(9);
  p.edge_bias->each([&](const Axes& at) {
    if ((at[2] + at[1]) % 5 == 0) p.edge_bias->set(at, -kInfinity);
  });
  return p;
}

}  // namespace

TEST_CASE("gradients through factors that have no reciprocal, or are no normal numbers",
          "[backward]") {
  struct Factors {
    bool wide;
    double softcap, scale, temperature;
  };
  for (const Factors& f : {Factors{false, 1e-40, 3e-41, 1}, Factors{true, 1e-310, 3e-311, 1},
                           Factors{false, 2, 1, 1e39}, Factors{true, 1e-10, 1e-10, 1e300},
                           Factors{false, 0, 1e-30, 1e12}}) {
    const Types types = all_of(f.wide ? HEED_DTYPE_F64 : HEED_DTYPE_DEFAULT);
    const auto set = [&](auto& desc) {
      desc.softcap = f.softcap;
      desc.scale = f.scale;
      desc.temperature = f.temperature;
    };
    Problem dense = filled(grouped(20, 40, types), 21);
    set(dense.desc);
    BackwardProblem of_dense = all_gradients_of(std::move(dense));
    check_problem(of_dense);
    GraphProblem graph = with_everything(random_edges(30, 200, 4), HEED_GRAPH_PROJECTED, types);
    set(graph.desc);
    GraphBackwardProblem of_graph = all_gradients_of(std::move(graph));
    check_problem(of_graph);
  }
}

// ---- Blocks ----

TEST_CASE("the gradient of a matrix over more rows than a product takes", "[backward][large]") {
  if (small()) return;
  Block block = plain_block(9, 0, 1, 4, block_desc(HEED_DTYPE_DEFAULT, 5), 500);
  block.fill(3);
  BlockBackward p = all_gradients_of(std::move(block));
  for (const std::uint32_t keep : {0U, 1U}) {
    p.block.own_desc.keep = keep;
    check_problem(p);
  }
}

TEST_CASE("of equal heads the first has the gradient of the largest", "[backward]") {
  Block block = block_of(HEED_COMBINE_MAX);
  // All heads share one matrix, so that they are the same.
  block.w_value.each([&](Index m, Index i, Index o) { block.w_value.set(m, i, o, 1); });
  block.w_value.bias->fill([] { return 0; });
  block.w_query.each([&](Index m, Index i, Index o) { block.w_query.set(m, i, o, 0); });
  block.w_query.bias->fill([] { return 0; });
  BlockBackward p = all_gradients_of(std::move(block));
  const BlockGradients got = p.run(plain_contexts()[0]);
  for (std::size_t i = 0; i < got[kBlockBValue].size(); ++i)
    CHECK((got[kBlockBValue][i] == 0) == (i >= 5));  // the other key head's features
}

// ---- Graphs ----

// Float32 without options, which is taken node by node: with log-sum-exps beside which a float32
// has lost digits, and with more edges from a source than are taken at once.
TEST_CASE("gradients over graphs whose nodes are taken at once, or cannot be", "[backward]") {
  const auto check = [](const EdgeList& edges, auto&& change) {
    for (const heed_score score : {HEED_SCORE_DOT, HEED_SCORE_SUM, HEED_SCORE_ADDITIVE}) {
      heed_graph_attention_desc d = graph_desc(3, score == HEED_SCORE_SUM ? 1 : 8, 4);
      d.score = score;
      if (score != HEED_SCORE_DOT) d.activation = HEED_ACTIVATION_LEAKY_RELU;
      GraphProblem graph(edges, d);
      graph.fill(1);
      change(graph);
      GraphBackwardProblem p = all_gradients_of(std::move(graph));
      check_problem(p);
    }
  };
  check(random_edges(30, 200, 4), [](GraphProblem& p) {
    p.query->each([&](const Axes& at) { p.query->set(at, 2000 * p.query->get(at)); });
  });
  EdgeList from_two;
  for (Index n = 0; n < 80; ++n) from_two.add(n % 2, n);
  from_two.nodes = 80;
  check(from_two, [](GraphProblem&) {});
}
