// Where graphs and plans over them get their memory from, and that all of it goes back.
#include "tests/api/graphs.hpp"
#include "tests/api/refused_memory.hpp"

using namespace api_test;

namespace {

heed_context_options options_with(const heed_allocator& allocator, const char* executor) {
  heed_context_options options = serial_options(allocator);
  options.executor_name = executor;
  options.threads = executor[0] == 's' ? 1 : 2;
  return options;
}

}  // namespace

TEST_CASE("a graph that gets no memory is refused", "[allocator][graph][threads]") {
  const Environment quiet;
  for (const std::string& executor : executors())
    for (const bool rows : {false, true})
      for (const bool sorted : {false, true}) {
        CountingAllocator memory;
        const heed_allocator allocator = memory.get();
        const heed_context_options options = options_with(allocator, executor.c_str());
        {
          const Context context = make_context(&options);
          SmallGraph form;
          if (!sorted) std::swap(form.sources[0], form.sources[1]);
          if (rows) form.by_rows();
          refuse_each_request(memory, [&] {
            return make_and_destroy<heed_graph>(
                [&](heed_graph** graph) {
                  return heed_graph_create(context.get(), &form.desc, graph);
                },
                heed_graph_destroy);
          });
        }
        CHECK(memory.live() == 0);
        CHECK(memory.sound());
      }
}

TEST_CASE("a refused graph gives its memory back", "[allocator][graph]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = options_with(allocator, "serial");
  const Context context = make_context(&options);
  const std::size_t live = memory.live();
  SmallGraph form;
  form.sources[3] = 4;
  heed_graph* graph = untouched<heed_graph>();
  CHECK(heed_graph_create(context.get(), &form.desc, &graph) == HEED_STATUS_INVALID_ARGUMENT);
  form.sources[3] = 0;
  form.desc.nodes = -4;
  CHECK(heed_graph_create(context.get(), &form.desc, &graph) == HEED_STATUS_INVALID_ARGUMENT);
  CHECK(memory.live() == live);
  CHECK(memory.sound());
}

TEST_CASE("a plan over a graph that gets no memory is refused", "[allocator][graph]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = options_with(allocator, "serial");
  {
    const Context context = make_context(&options);
    const GraphForm form;
    const Graph graph = make_graph(context, form.graph.desc);
    refuse_each_request(memory, [&] {
      return make_and_destroy<heed_graph_attention_plan>(
          [&](heed_graph_attention_plan** plan) {
            return heed_graph_attention_plan_create(context.get(), graph.get(), &form.desc, plan);
          },
          heed_graph_attention_plan_destroy);
    });
  }
  CHECK(memory.live() == 0);
  CHECK(memory.sound());
}

TEST_CASE("the one call over a graph that gets no memory is refused", "[allocator][graph]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = options_with(allocator, "serial");
  const Context context = make_context(&options);
  const GraphForm any;
  const Graph graph = make_graph(context, any.graph.desc);
  refuse_each_request(memory, [&] {
    const GraphForm form;
    const heed_status status = attend(context, graph, form);
    CHECK((status == HEED_STATUS_OK) == !form.outputs_untouched());
    return status;
  });
  const std::size_t live = memory.live();
  GraphForm refused;
  refused.args.key = nullptr;
  CHECK(attend(context, graph, refused) == HEED_STATUS_INVALID_ARGUMENT);
  CHECK(memory.live() == live);
}

TEST_CASE("a run over a graph asks the allocator for nothing", "[allocator][graph][threads]") {
  const Environment quiet;
  for (const std::string& executor : executors())
    for (const bool shared : {false, true}) {
      CountingAllocator memory;
      const heed_allocator allocator = memory.get();
      const heed_context_options options = options_with(allocator, executor.c_str());
      const Context context = make_context(&options);
      GraphForm form;
      if (shared) form.share();
      const Graph graph = make_graph(context, form.graph.desc);
      const GraphPlan plan = make_plan(context, graph, form.desc);
      const Workspace workspace(describe(plan).workspace_bytes);
      memory.restart();
      for (int i = 0; i < 3; ++i)
        CHECK(heed_graph_attention_plan_run(plan.get(), &form.args, workspace.get(),
                                            workspace.bytes()) == HEED_STATUS_OK);
      CHECK(memory.requests() == 0);
    }
}

TEST_CASE("graphs hold their context, and plans their graph", "[allocator][graph]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = options_with(allocator, "serial");
  for (const bool graph_first : {false, true}) {
    Context context = make_context(&options);
    GraphForm form;
    Graph graph = make_graph(context, form.graph.desc);
    context.reset();
    heed_graph_info info = HEED_GRAPH_INFO_INIT;
    CHECK(heed_graph_describe(graph.get(), &info) == HEED_STATUS_OK);
    CHECK(info.edges == 5);
    Context other = make_context(&options);
    GraphPlan plan = make_plan(other, graph, form.desc);
    GraphPlan second = make_plan(other, graph, form.desc);
    other.reset();
    graph.reset();
    const Workspace workspace(describe(plan).workspace_bytes);
    CHECK(heed_graph_attention_plan_run(plan.get(), &form.args, workspace.get(),
                                        workspace.bytes()) == HEED_STATUS_OK);
    (graph_first ? plan : second).reset();
    CHECK(memory.live() > 0);
    plan.reset();
    second.reset();
    CHECK(memory.live() == 0);
    CHECK(memory.sound());
  }
}
