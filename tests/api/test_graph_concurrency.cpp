// Graphs and plans over them are immutable: many threads use the same one at once.
#include "tests/api/graphs.hpp"
#include "tests/api/threads.hpp"

using namespace api_test;

namespace {

/// A graph with a hub that is cut into pieces, and numbers to attend over it.
struct Shared {
  static constexpr std::int64_t kNodes = 60;
  static constexpr std::int64_t kEdges = 20000;

  Shared()
      : query(numbers(kNodes * 2 * 4, 1)),
        key(numbers(kNodes * 2 * 4, 2)),
        value(numbers(kNodes * 2 * 4, 3)) {
    std::uint32_t state = 5;
    for (std::int64_t e = 0; e < kEdges; ++e) {
      state = state * 1664525U + 1013904223U;
      sources.push_back(static_cast<std::int32_t>((state >> 8) % kNodes));
      destinations.push_back(e % 20 == 0 ? static_cast<std::int32_t>((state >> 16) % kNodes) : 7);
    }
    graph.nodes = kNodes;
    graph.edges = kEdges;
    graph.sources = sources.data();
    graph.destinations = destinations.data();
    graph.duplicates = HEED_DUPLICATES_KEEP;
    desc.heads = 2;
    desc.features = 4;
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  /// A run with out, lse and workspace of its own; all of what it wrote, nothing after a failure.
  std::vector<float> run(const GraphPlan& plan, std::size_t bytes) const {
    const Workspace workspace(bytes);
    std::vector<float> results(kNodes * 2 * (4 + 1) + kEdges * 2);
    heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
    args.query = query.data();
    args.key = key.data();
    args.value = value.data();
    args.out = results.data();
    args.lse = results.data() + kNodes * 2 * 4;
    args.weights = results.data() + kNodes * 2 * 5;
    if (heed_graph_attention_plan_run(plan.get(), &args, workspace.get(), bytes) != HEED_STATUS_OK)
      return {};
    return results;
  }

  std::vector<std::int32_t> sources, destinations;
  std::vector<float> query, key, value;
  heed_graph_desc graph = HEED_GRAPH_DESC_INIT;
  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
};

std::vector<float> expected(const Shared& shared) {
  const Context context = serial();
  const Graph graph = make_graph(context, shared.graph);
  const GraphPlan plan = make_plan(context, graph, shared.desc);
  const std::vector<float> results = shared.run(plan, describe(plan).workspace_bytes);
  REQUIRE(!results.empty());
  return results;
}

}  // namespace

TEST_CASE("one plan over a graph runs on many threads at once", "[concurrency][graph][threads]") {
  const Environment quiet;
  const Shared shared;
  const std::vector<float> want = expected(shared);
  for (const std::string& name : executors()) {
    CAPTURE(name);
    const Context context = make_context(nullptr, name.c_str(), name == "serial" ? 1 : 2);
    const Graph graph = make_graph(context, shared.graph);
    const GraphPlan plan = make_plan(context, graph, shared.desc);
    const std::size_t bytes = describe(plan).workspace_bytes;
    CHECK(on_all_threads([&](int) {
      for (int repeat = 0; repeat < 3; ++repeat)
        if (!same_bits(shared.run(plan, bytes), want)) return false;
      return true;
    }));
  }
}

TEST_CASE("graphs and plans are made and destroyed on many threads",
          "[concurrency][graph][threads]") {
  const Environment quiet;
  const Shared shared;
  const std::vector<float> want = expected(shared);
  for (const std::string& name : executors()) {
    CAPTURE(name);
    const Context context = make_context(nullptr, name.c_str(), name == "serial" ? 1 : 2);
    const Graph common = make_graph(context, shared.graph);
    CHECK(on_all_threads([&](int t) {
      for (int repeat = 0; repeat < 4; ++repeat) {
        heed_graph* own = nullptr;
        if (heed_graph_create(context.get(), &shared.graph, &own) != HEED_STATUS_OK) return false;
        const Graph graph(own);
        heed_graph_attention_plan* made = nullptr;
        if (heed_graph_attention_plan_create(context.get(), t % 2 == 0 ? own : common.get(),
                                             &shared.desc, &made) != HEED_STATUS_OK)
          return false;
        const GraphPlan plan(made);
        std::size_t bytes = 0;
        if (heed_graph_attention_plan_workspace(made, &bytes) != HEED_STATUS_OK) return false;
        if (!same_bits(shared.run(plan, bytes), want)) return false;
      }
      return true;
    }));
  }
}

TEST_CASE("a plan outlives its graph and both their contexts, whatever executes it",
          "[concurrency][graph][threads]") {
  const Environment quiet;
  const Shared shared;
  const std::vector<float> want = expected(shared);
  for (const std::string& name : executors()) {
    CAPTURE(name);
    Context maker = serial();
    Context context = make_context(nullptr, name.c_str(), name == "serial" ? 1 : 2);
    Graph graph = make_graph(maker, shared.graph);
    const GraphPlan plan = make_plan(context, graph, shared.desc);
    maker.reset();
    context.reset();
    graph.reset();
    CHECK(same_bits(shared.run(plan, describe(plan).workspace_bytes), want));
  }
}
