// Nodes with very many edges, which are cut into pieces and merged. (Sweeps draw them too, with
// every option and bias; tests/operations/test_sweep.cpp.)
#include <algorithm>
#include <numeric>

#include "tests/graph/problems.hpp"
#include "tests/problem/graph_backward.hpp"

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

TEST_CASE("edges in another order, with their numbers, are dropped alike, forward and backward",
          "[hubs]") {
  constexpr Index kNodes = 9000;
  EdgeList edges{kNodes, {}, {}, false};  // into a hub, out of another, and around a circle
  for (Index n = 0; n < kNodes; ++n) {
    edges.add(n, 5);
    if (n != 5) edges.add(7, n);
    if (n != 5 && n != 6) edges.add((n + 1) % kNodes, n);
  }
  GraphProblem first = projected_problem(edges, 2, 4, 3);
  first.weights.reset();
  first.desc.dropout = 0.3;
  first.dropout_seed = 4;
  GraphProblem second = first;
  std::reverse(second.edges.sources.begin(), second.edges.sources.end());
  std::reverse(second.edges.destinations.begin(), second.edges.destinations.end());
  second.dropout_edges.resize(edges.sources.size());
  std::iota(second.dropout_edges.rbegin(), second.dropout_edges.rend(), 0);
  GraphBackwardProblem of_first(first), of_second(second);
  of_first.want_all();
  of_second.want_all();
  for (const char* const isa : isa_names()) {
    INFO(isa);
    CHECK(same_bits(first.run(isa), second.run(isa)));
    const Context context = make_context(isa);
    const GraphGradients want = of_first.run(context);
    const GraphGradients got = of_second.run(context);
    for (const std::size_t of : {kGraphQuery, kGraphKey, kGraphValue})
      CHECK(same_bits(want[of], got[of]));
  }
}
