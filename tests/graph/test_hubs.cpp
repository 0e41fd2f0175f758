// Nodes with very many edges, which are cut into pieces and merged. (Sweeps draw them too, with
// every option and bias; tests/operations/test_sweep.cpp.)
#include "tests/graph/problems.hpp"

using namespace heed_test;

TEST_CASE("a hub is cut into pieces", "[hubs]") {
  EdgeList edges = hub_graph(500, 20000, 77, 1);
  for (Index& n : edges.destinations) n = 5;
  const Context context = make_context(isa_names()[0]);
  const Graph graph = make_graph(context, edges);
  CHECK(describe(make_plan(context, graph, graph_desc(2, 4, 3))).tasks > 1);
}

TEST_CASE("edges into other nodes change no bit of a node", "[hubs]") {
  std::uint64_t seed = 0;
  for (const char* const isa : isa_names())
    for (const Kind& kind : kinds()) {
      GraphProblem all = projected_problem(hub_graph(40, 700, 13, 31), 3, 8, 5, kind.types, 32);
      all.weights.reset();
      // With dropout, too, which goes by the numbers that edges have in the larger graph.
      if (++seed % 2 == 0) all.desc.dropout = 0.3, all.dropout_seed = seed;
      GraphProblem some = all;
      some.edges = EdgeList{40, {}, {}, false};
      for (std::size_t e = 0; e < all.edges.sources.size(); ++e)
        if (all.edges.destinations[e] % 3 == 1) {
          some.edges.add(all.edges.sources[e], all.edges.destinations[e]);
          if (all.desc.dropout != 0) some.dropout_edges.push_back(static_cast<Index>(e));
        }
      const Outputs want = all.run(isa);
      const Outputs got = some.run(isa);
      INFO(isa << ": " << line_of(some));
      for (std::size_t i = 0; i < got.out.size(); ++i)
        if (i / 5 % 40 % 3 == 1) CHECK(same_element(got.out, i, want.out, i));
      for (std::size_t i = 0; i < got.lse.size(); ++i)
        if (i % 40 % 3 == 1) CHECK(same_element(got.lse, i, want.lse, i));
    }
}
