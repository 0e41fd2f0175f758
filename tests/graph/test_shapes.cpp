// Odd graphs: sources of another kind and single edges; and sizes
// around those of vectors and panels, which random ones hit too seldom.
#include "tests/graph/problems.hpp"

using namespace heed_test;

namespace {

double row_element(const Numbers& numbers, Index rows, Index width, Index h, Index n, Index x) {
  return numbers[static_cast<std::size_t>((h * rows + n) * width + x)];
}

}  // namespace

TEST_CASE("a graph whose sources are of another kind says so, and has no reverse order",
          "[shapes]") {
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

TEST_CASE("one edge gives the value of its source, bit by bit", "[shapes]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16})
    for (const char* const isa : isa_names())
      for (const Index width : {1, 3, 8, 16, 33}) {
        EdgeList loops{30, {}, {}, false};
        for (Index n = 0; n < 30; ++n) loops.add(n * 7 % 30, n);
        GraphProblem p = projected_problem(loops, 5, 4, width, all_of(dtype));
        const GraphOutputs got = p.run(isa);
        INFO(isa << ": " << line_of(p));
        for (Index h = 0; h < 5; ++h)
          for (Index n = 0; n < 30; ++n) {
            CHECK(row_element(got.weights, 30, 1, h, n, 0) == 1);
            for (Index x = 0; x < width; ++x)
              CHECK(row_element(got.out, 30, width, h, n, x) ==
                    p.value->get({0, h, n * 7 % 30, x}));
          }
      }
}

TEST_CASE("more edges, heads and features than vectors and panels have", "[shapes]") {
  Report report("numbers of edges");
  const auto check = [&](Index edges, Index heads, Index features, std::uint32_t dtype) {
    EdgeList list = random_edges(20, edges, static_cast<std::uint64_t>(edges));
    for (Index& n : list.destinations) n = 3;
    GraphProblem p = projected_problem(list, heads, features, 71 - features, all_of(dtype));
    check_problem(p, &report);
  };
  for (Index n = 1; n <= 140; ++n) {
    if (!keep(static_cast<std::size_t>(n))) continue;
    check(n, 1 + n % 4, 1 + n % 9, HEED_DTYPE_F32);
    if (n > 70) continue;
    check(10, n, 3, HEED_DTYPE_F32);
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_F16})
      check(20, 2, n, dtype);
  }
}
