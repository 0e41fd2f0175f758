// Graphs as they are built: what is described, and that neither threads nor the order of edges
// show.
#include "tests/graph/problems.hpp"
#include "tests/support/executors.hpp"

using namespace heed_test;

namespace {

void check_info(const EdgeList& edges, const heed_graph_info& info) {
  Index kept = 0, isolated = 0, most = 0;
  for (const std::vector<Index>& all : incoming(edges)) {
    const auto count = static_cast<Index>(all.size());
    kept += count;
    isolated += count == 0 ? 1 : 0;
    most = std::max(most, count);
  }
  CHECK(info.nodes == edges.nodes);
  CHECK(info.edges == kept);
  CHECK(info.edges_given == edges.size());
  CHECK(info.isolated == isolated);
  CHECK(info.most == most);
  CHECK(info.bytes > 0);
}

GraphProblem problem(const EdgeList& edges) { return projected_problem(edges, 1, 2, 3); }

}  // namespace

TEST_CASE("a graph says what it holds", "[build]") {
  const Context context = make_context(isa_names()[0]);
  for (const Index nodes : {0, 1, 7, 300, 5000})
    for (const Index edges : {0, 1, 50, 3000, 100000})
      for (const bool unique : {false, true})
        for (const GraphForm form :
             {GraphForm{false, HEED_INDEX_I32}, GraphForm{false, HEED_INDEX_I64},
              GraphForm{true, HEED_INDEX_I32}, GraphForm{true, HEED_INDEX_I64}}) {
          if ((small() && edges > 3000) || (nodes == 0 && edges > 0)) continue;
          EdgeList list = by_destination(random_edges(nodes, edges, 3));
          list.unique = unique;
          INFO(nodes << " nodes, " << edges << " edges");
          check_info(list, describe(make_graph(context, list, form)));
        }
}

TEST_CASE("a large graph is built alike by any threads, in any order and form",
          "[build][threads]") {
  const Index nodes = small() ? 3000 : 70000;
  for (const bool unique : {false, true}) {
    EdgeList edges = random_edges(nodes, 4 * nodes, 5);
    for (std::size_t e = 0; e < edges.sources.size(); e += 5) {  // duplicates, far apart
      edges.sources[e] = edges.sources[e / 2];
      edges.destinations[e] = edges.destinations[e / 2];
    }
    edges.unique = unique;
    GraphProblem p = problem(edges);
    const Outputs first = p.run(isa_names().back());
    check_results("built", run(p, make_context(isa_names().back())), wanted(p), isa_names().back());
    Random random(6);
    each_executor(isa_names().back(), [&](const std::string& name, const Context& context) {
      INFO(name);
      CHECK(same_bits(p.run(context, GraphForm{false, HEED_INDEX_I64}), first));
      GraphProblem other = problem(reordered(edges, random_order(edges.sources.size(), random)));
      CHECK(same_bits(other.run(context).out, first.out));
      other.edges = by_destination(other.edges);
      CHECK(same_bits(other.run(context, GraphForm{true, HEED_INDEX_I32}).out, first.out));
      check_info(other.edges, describe(make_graph(context, other.edges)));
    });
  }
}

TEST_CASE("a graph needs nothing of the caller's arrays once it is made", "[build]") {
  const EdgeList edges = random_edges(40, 500, 7);
  GraphProblem p = problem(edges);
  const Context context = make_context(isa_names()[0]);
  const Outputs want = p.run(context);
  GraphArrays arrays(edges, {false, HEED_INDEX_I64});
  const heed_graph_desc desc = arrays.desc();
  const Graph graph = create<heed_graph>(context.get(), &desc);
  std::fill(arrays.sources.begin(), arrays.sources.end(), -1);
  std::fill(arrays.ends.begin(), arrays.ends.end(), 1 << 30);
  CHECK(same_bits(p.run(context, graph), want));
}

TEST_CASE("a graph whose sources are of another kind says so, and has no reverse order",
          "[build]") {
  const Context context = make_context(isa_names().back());
  EdgeList edges{2, {22, 0, 5}, {1, 0, 1}, false, 23};
  const Graph graph = make_graph(context, edges);
  const heed_graph_info info = describe(graph);
  CHECK(info.nodes == 2);
  CHECK(info.source_nodes == 23);
  CHECK(info.edges == 3);
  GraphArrays arrays(edges, {});
  heed_graph_desc desc = arrays.desc();
  desc.reverse = 1;
  heed_graph* made = nullptr;
  CHECK(heed_graph_create(context.get(), &desc, &made) == HEED_STATUS_UNSUPPORTED);
  const heed_graph_attention_desc attention = of_data(HEED_GRAPH_SHARED, 4, 3, 5, 8);
  heed_graph_attention_plan* plan = nullptr;
  CHECK(heed_graph_attention_plan_create(context.get(), graph.get(), &attention, &plan) ==
        HEED_STATUS_INVALID_ARGUMENT);
  CHECK(std::string(heed_last_error()).find("a graph with source_nodes") != std::string::npos);
}
