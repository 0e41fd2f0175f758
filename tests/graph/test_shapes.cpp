// Odd graphs: sources of another kind, single edges, duplicates, and nothing at all; and sizes
// around those of vectors and panels, which random ones hit too seldom.
#include <array>

#include "tests/graph/problems.hpp"

using namespace heed_test;

namespace {

double row_element(const Numbers& numbers, Index rows, Index width, Index h, Index n, Index x) {
  return numbers[static_cast<std::size_t>((h * rows + n) * width + x)];
}

}  // namespace

TEST_CASE("sources of another kind, with numbers of their own", "[shapes]") {
  // Destinations and sources of a graph of both, whose results are the same bits: destinations come
  // first there, and no edge leads from them.
  for (const auto [nodes, sources, count] :
       {std::array<Index, 3>{1, 1, 1}, {7, 23, 90}, {77, 3, 400}, {197, 900, 9000}, {1, 40, 20000}})
    for (const char* const isa : isa_names()) {
      INFO(isa << ", " << nodes << " nodes, " << sources << " sources");
      EdgeList both{nodes + sources, {}, {}, false};
      std::vector<std::int64_t> from, to;
      Random random(static_cast<std::uint64_t>(count));
      for (Index e = 0; e < count; ++e) {
        from.push_back(random.integer(0, sources - 1));
        to.push_back(random.integer(0, nodes - 1));
        both.add(nodes + from.back(), to.back());
      }
      const Index heads = 3, features = 5, value_features = 8;
      GraphProblem whole = projected_problem(both, heads, features, value_features);
      const Context context = make_context(isa);
      const GraphOutputs want = whole.run(context);

      heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
      desc.index_type = HEED_INDEX_I64;
      desc.nodes = nodes;
      desc.source_nodes = sources;
      desc.edges = count;
      desc.sources = from.data();
      desc.destinations = to.data();
      desc.duplicates = HEED_DUPLICATES_KEEP;
      heed_graph* made = nullptr;
      require_ok(heed_graph_create(context.get(), &desc, &made));
      const Graph graph(made);
      const heed_graph_info info = describe(graph);
      CHECK(info.nodes == nodes);
      CHECK(info.source_nodes == sources);
      CHECK(info.edges == count);

      // In rows that end where the tensors do.
      const auto rows_of = [](const Tensor& tensor, Index begin, Index rows) {
        std::vector<float> numbers;
        for (Index n = begin; n < begin + rows; ++n)
          for (Index h = 0; h < tensor.shape()[1]; ++h)
            for (Index x = 0; x < tensor.shape()[3]; ++x)
              numbers.push_back(static_cast<float>(tensor.get({0, h, n, x})));
        return numbers;
      };
      const std::vector<float> query = rows_of(*whole.query, 0, nodes);
      const std::vector<float> key = rows_of(*whole.key, nodes, sources);
      const std::vector<float> value = rows_of(*whole.value, nodes, sources);
      std::vector<float> out(static_cast<std::size_t>(nodes * heads * value_features), -1);
      std::vector<float> lse(static_cast<std::size_t>(nodes * heads), -1);
      std::vector<float> weights(static_cast<std::size_t>(count * heads), -1);
      heed_graph_attention_desc attention = HEED_GRAPH_ATTENTION_DESC_INIT;
      attention.heads = heads;
      attention.features = features;
      attention.value_features = value_features;
      heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
      args.query = query.data();
      args.key = key.data();
      args.value = value.data();
      args.out = out.data();
      args.lse = lse.data();
      args.weights = weights.data();
      require_ok(heed_graph_attention(context.get(), graph.get(), &attention, &args));
      // Outputs of the whole have the shape [head, row, feature].
      const auto same = [](const std::vector<float>& got, const Numbers& of_whole, Index all_rows,
                           Index rows, Index columns) {
        bool equal = true;
        for (Index n = 0; n < rows; ++n)
          for (Index h = 0; h < heads; ++h)
            for (Index x = 0; x < columns; ++x)
              equal = equal &&
                      got[static_cast<std::size_t>((n * heads + h) * columns + x)] ==
                          static_cast<float>(row_element(of_whole, all_rows, columns, h, n, x));
        return equal;
      };
      CHECK(same(out, want.out, nodes + sources, nodes, value_features));
      CHECK(same(lse, want.lse, nodes + sources, nodes, 1));
      CHECK(same(weights, want.weights, count, count, 1));

      desc.reverse = 1;
      CHECK(heed_graph_create(context.get(), &desc, &made) == HEED_STATUS_UNSUPPORTED);
      attention.inputs = HEED_GRAPH_SHARED;
      attention.width = 4;
      heed_graph_attention_plan* plan = nullptr;
      CHECK(heed_graph_attention_plan_create(context.get(), graph.get(), &attention, &plan) ==
            HEED_STATUS_INVALID_ARGUMENT);
      CHECK(std::string(heed_last_error()).find("a graph with source_nodes") != std::string::npos);
    }
}

TEST_CASE("without nodes or edges no pointer is needed but what has elements", "[shapes]") {
  const Context context = make_context(isa_names().back());
  for (const Index nodes : {0, 2}) {
    heed_graph_desc empty = HEED_GRAPH_DESC_INIT;
    empty.nodes = nodes;
    heed_graph* made = nullptr;
    require_ok(heed_graph_create(context.get(), &empty, &made));
    const Graph graph(made);
    heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
    desc.heads = desc.features = 1;
    heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
    float numbers[2] = {1, 2};
    float out[2] = {3, 4};
    if (nodes > 0) args.query = args.key = args.value = numbers;
    if (nodes > 0) args.out = out;
    require_ok(heed_graph_attention(context.get(), graph.get(), &desc, &args));
    if (nodes > 0) CHECK((out[0] == 0 && out[1] == 0));
  }
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

TEST_CASE("of duplicates the first stays, with what belongs to it, or each counts", "[shapes]") {
  // 2 -> 0 three times, 1 -> 0 twice, 0 -> 1 twice, one edge in between.
  EdgeList edges{4, {2, 1, 2, 0, 3, 1, 2, 0}, {0, 0, 0, 1, 0, 0, 0, 1}, true};
  const std::vector<bool> stays = {true, true, false, true, true, false, false, false};
  for (const bool unique : {true, false}) {
    edges.unique = unique;
    GraphProblem p = projected_problem(edges, 2, 3, 4);
    add_edge_tensors(p, 3);
    p.fill(4);
    const GraphExpected want = p.expected();
    for (const char* const isa : isa_names()) {
      const Context context = make_context(isa);
      const Graph graph = make_graph(context, edges);
      const heed_graph_info info = describe(graph);
      CHECK(info.edges == (unique ? 4 : 8));
      CHECK(info.edges_given == 8);
      CHECK(info.isolated == 2);
      CHECK(info.most == (unique ? 3 : 6));
      const GraphOutputs got = p.run(context, graph);
      CHECK(check_outputs(p, isa, got, want).worst() <= 1);
      for (std::size_t e = 0; e < 8; ++e)
        for (std::size_t h = 0; h < 2; ++h)
          CHECK((got.weights[h * 8 + e] == 0) == (unique && !stays[e]));
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
