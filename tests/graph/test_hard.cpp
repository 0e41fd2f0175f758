// Hard attention: weight 1 at the largest score, of equal ones at the lowest source, then at the
// edge given first. Scores are small whole numbers, which are exact in every type.
#include "tests/graph/problems.hpp"

using namespace heed_test;

namespace {

/// The edge that wins at each node, by its number; -1: none.
std::vector<Index> winners(const GraphProblem& p, Index head) {
  std::vector<Index> all;
  for (const std::vector<Index>& edges : incoming(p.edges)) {
    Index best = -1;
    double most = -kInfinity;
    for (const Index e : edges) {
      const Index m = p.edges.sources[static_cast<std::size_t>(e)];
      double score = p.key->get({0, head, m, 0});
      if (p.edge_bias) score += p.edge_bias->get({0, head, e, 0});
      if (score > most) best = e;
      most = std::max(most, score);
    }
    all.push_back(best);
  }
  return all;
}

void check_winners(GraphProblem& p) {
  for (const char* const isa : isa_names()) {
    INFO(isa << ": " << line_of(p));
    const GraphOutputs got = p.run(isa);
    const Index nodes = p.edges.nodes;
    for (Index h = 0; h < p.desc.heads; ++h) {
      const std::vector<Index> best = winners(p, h);
      for (Index n = 0; n < nodes; ++n) {
        const Index e = best[static_cast<std::size_t>(n)];
        double value = 0;
        if (e >= 0) {
          value = p.value->get({0, h, p.edges.sources[static_cast<std::size_t>(e)], 0});
          if (p.edge_data) value += p.edge_data->get({0, 0, e, 0});
        }
        CHECK(got.out[static_cast<std::size_t>(h * nodes + n)] == value);
      }
      for (Index e = 0; e < p.edges.size(); ++e) {
        const Index n = p.edges.destinations[static_cast<std::size_t>(e)];
        CHECK(got.weights[static_cast<std::size_t>(h * p.edges.size() + e)] ==
              (best[static_cast<std::size_t>(n)] == e ? 1 : 0));
      }
    }
  }
}

/// Queries of 1, keys that are few different whole numbers, and values that tell nodes apart.
GraphProblem problem(const EdgeList& edges, Index different, std::uint32_t dtype, bool by_edge) {
  heed_graph_attention_desc d = graph_desc(3, 1, 1, all_of(dtype));
  d.hard = 1;
  d.scale = 1;
  GraphProblem p(edges, d);
  p.query->fill([] { return 1; });
  Random random(static_cast<std::uint64_t>(different));
  const auto whole = [&] { return static_cast<double>(random.integer(-different, different)); };
  p.key->fill(whole);
  p.value->each([&](const Axes& at) { p.value->set(at, static_cast<double>(at[2] + 32 * at[1])); });
  if (by_edge) {
    p.key->fill([] { return 0; });  // a sum of both might round
    add_edge_tensors(p, 1, dtype);
    p.w_edge_key.reset();
    p.edge_bias->fill(whole);
    p.edge_data->each(
        [&](const Axes& at) { p.edge_data->set(at, 256 * static_cast<double>(at[2] % 3)); });
    p.w_edge_value->fill([] { return 1; });
  }
  p.add({kGraphWeights});
  return p;
}

}  // namespace

TEST_CASE("hard attention and equal scores", "[hard]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_F16})
    for (const Index edges : {20, 100, 900})
      for (const Index different : {0, 1, 3})
        for (const bool by_edge : {false, true})
          for (const bool unique : {false, true}) {
            EdgeList list = random_edges(25, edges, static_cast<std::uint64_t>(edges));
            list.unique = unique;
            GraphProblem p = problem(list, different, dtype, by_edge);
            check_winners(p);
          }
}

TEST_CASE("hard attention where all but one edge are left out", "[hard]") {
  const EdgeList list = random_edges(10, 60, 5);
  GraphProblem p = problem(list, 2, HEED_DTYPE_F32, true);
  p.edge_bias->each([&](const Axes& at) {
    if (at[2] % 5 != 0) p.edge_bias->set(at, -kInfinity);
  });
  check_winners(p);
}
