// A run allocates nothing: this program puts its own malloc before the C library's and counts.
//
// A program of its own, without a test framework, so that every request is heed's. It needs
// glibc, which exports its allocator under second names.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "heed.h"
#include "tests/faults/interposed.hpp"

using heed_test::memory_requests;

namespace {

int failures = 0;

void expect(bool good, const char* what, const char* where) {
  if (good) return;
  ++failures;
  (void)std::printf("FAILED: %s (%s); last error: %s\n", what, where, heed_last_error());
}

heed_attention_desc problem() {
  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  desc.batch = 2;
  desc.query_heads = 4;
  desc.key_heads = 2;
  desc.query_length = desc.key_length = 150;
  desc.features = desc.value_features = 40;
  desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  return desc;
}

/// The same with everything that needs room on the way: other types, masks, weights.
heed_attention_desc full_problem() {
  heed_attention_desc desc = problem();
  desc.query.dtype = desc.key.dtype = desc.value.dtype = desc.out.dtype = HEED_DTYPE_F16;
  desc.bias.dtype = desc.weights.dtype = HEED_DTYPE_BF16;
  desc.softcap = 30;
  desc.weights_point = HEED_WEIGHTS_PROBABILITIES;
  desc.sum_columns = 1;
  return desc;
}

/// Requests for memory during runs of `plan`, after one run to warm up what is not heed.
void check_runs(const heed_attention_plan* plan, bool full, const char* where) {
  constexpr std::size_t kElements = std::size_t{2} * 4 * 150 * 150;
  const std::vector<float> in(kElements, 0.5F);
  const std::vector<std::uint8_t> mask(kElements, 1);
  std::vector<float> out(kElements);
  std::vector<float> weights(kElements);
  std::vector<float> sums(kElements);
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = args.key = args.value = in.data();
  args.out = out.data();
  if (full) {
    args.mask = mask.data();
    args.bias = args.alibi_slopes = args.sinks = in.data();
    args.weights = weights.data();
    args.column_sums = sums.data();
  }
  std::size_t bytes = 0;
  expect(heed_attention_plan_workspace(plan, &bytes) == HEED_STATUS_OK, "workspace", where);
  void* const workspace = std::aligned_alloc(HEED_WORKSPACE_ALIGNMENT, (bytes + 63) / 64 * 64);

  bool ran = heed_attention_plan_run(plan, &args, workspace, bytes) == HEED_STATUS_OK;
  const std::uint64_t before = memory_requests();
  for (int i = 0; i < 3; ++i)
    ran = heed_attention_plan_run(plan, &args, workspace, bytes) == HEED_STATUS_OK && ran;
  const std::uint64_t after = memory_requests();
  std::free(workspace);
  expect(ran, "runs", where);
  expect(after == before, "a run allocates nothing", where);
}

void check(const heed_context_options& options, bool full, const char* where) {
  heed_context* context = nullptr;
  heed_attention_plan* plan = nullptr;
  const heed_attention_desc desc = full ? full_problem() : problem();
  const std::uint64_t before = memory_requests();
  expect(heed_context_create(&options, &context) == HEED_STATUS_OK, "context", where);
  expect(memory_requests() > before, "this program counts requests", where);
  expect(heed_attention_plan_create(context, &desc, &plan) == HEED_STATUS_OK, "plan", where);
  if (plan != nullptr) check_runs(plan, full, where);
  heed_attention_plan_destroy(plan);
  heed_context_destroy(context);
}

/// A matrix of halves, prepared.
heed_weights* prepare(const heed_context* context, const std::vector<float>& in,
                      const char* where) {
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.in = desc.out = 80;
  heed_weights* weights = nullptr;
  expect(heed_weights_create(context, &desc, in.data(), in.data(), &weights) == HEED_STATUS_OK,
         "weights", where);
  return weights;
}

/// Requests for memory during runs of a block with raw matrices and prepared ones.
void check_block(const heed_context_options& options, heed_combine combine, const char* where) {
  heed_context* context = nullptr;
  expect(heed_context_create(&options, &context) == HEED_STATUS_OK, "context", where);
  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  attention.batch = 2;
  attention.query_heads = 4;
  attention.query_length = attention.key_length = 90;
  attention.features = 20;
  heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT;
  desc.combine = combine;
  desc.attention = &attention;
  desc.width_query = 80;
  desc.input_query.dtype = desc.input_key.dtype = desc.out.dtype = HEED_DTYPE_F16;
  heed_multihead_plan* plan = nullptr;
  expect(heed_multihead_plan_create(context, &desc, &plan) == HEED_STATUS_OK, "plan", where);
  const std::vector<float> in(std::size_t{2} * 90 * 80, 0.5F);
  std::vector<float> out(std::size_t{2} * 90 * 80);
  heed_weights* const prepared = prepare(context, in, where);
  heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
  args.input_query = args.w_query = args.b_query = args.w_value = in.data();
  args.p_key = prepared;
  args.out = out.data();
  if (combine == HEED_COMBINE_CONCAT) args.w_out = in.data();
  if (combine == HEED_COMBINE_WEIGHTED) args.head_weights = in.data();
  std::size_t bytes = 0;
  expect(heed_multihead_plan_workspace(plan, &bytes) == HEED_STATUS_OK, "workspace", where);
  void* const workspace = std::aligned_alloc(HEED_WORKSPACE_ALIGNMENT, (bytes + 63) / 64 * 64);

  bool ran = heed_multihead_plan_run(plan, &args, workspace, bytes) == HEED_STATUS_OK;
  const std::uint64_t before = memory_requests();
  for (int i = 0; i < 3; ++i)
    ran = heed_multihead_plan_run(plan, &args, workspace, bytes) == HEED_STATUS_OK && ran;
  const std::uint64_t after = memory_requests();
  std::free(workspace);
  expect(ran, "runs of a block", where);
  expect(after == before, "a run of a block allocates nothing", where);
  heed_weights_destroy(prepared);
  heed_multihead_plan_destroy(plan);
  heed_context_destroy(context);
}

heed_executor in_order() {
  heed_executor executor = HEED_EXECUTOR_INIT;
  executor.threads = 3;
  executor.run = [](void*, std::uint32_t items, void (*body)(void*, std::uint32_t),
                    void* argument) {
    for (std::uint32_t i = 0; i < items; ++i) body(argument, i);
  };
  return executor;
}

/// Tensors of attention over a graph: halves, and the outputs.
struct GraphTensors {
  static constexpr std::size_t kElements = std::size_t{20000} * 4;
  std::vector<float> in = std::vector<float>(kElements, 0.5F);
  std::vector<float> out = std::vector<float>(kElements);
  std::vector<float> weights = std::vector<float>(kElements);
  std::vector<float> lse = std::vector<float>(kElements);
};

heed_graph_attention_args graph_args(const heed_graph_attention_desc& desc, GraphTensors& tensors) {
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  const float* const in = tensors.in.data();
  if (desc.inputs == HEED_GRAPH_PROJECTED) args.query = args.key = args.value = in;
  if (desc.inputs != HEED_GRAPH_PROJECTED) args.w_query = args.w_key = args.w_value = in;
  args.data = args.edge_data = args.w_edge_key = args.w_edge_value = args.edge_bias = in;
  args.out = tensors.out.data();
  args.weights = tensors.weights.data();
  args.lse = tensors.lse.data();
  return args;
}

/// Requests for memory during runs over a graph with a hub, with everything that needs room.
void check_graph(const heed_context_options& options, std::uint32_t inputs, const char* where) {
  heed_context* context = nullptr;
  expect(heed_context_create(&options, &context) == HEED_STATUS_OK, "context", where);
  std::vector<std::int32_t> sources, destinations;
  for (std::int32_t e = 0; e < 20000; ++e) {
    sources.push_back(e % 90);
    destinations.push_back(e % 3 == 0 ? e % 80 : 5);
  }
  heed_graph_desc given = HEED_GRAPH_DESC_INIT;
  given.nodes = 90;
  given.edges = 20000;
  given.sources = sources.data();
  given.destinations = destinations.data();
  given.duplicates = inputs == HEED_GRAPH_PROJECTED ? HEED_DUPLICATES_KEEP : HEED_DUPLICATES_REMOVE;
  heed_graph* graph = nullptr;
  expect(heed_graph_create(context, &given, &graph) == HEED_STATUS_OK, "graph", where);
  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  desc.inputs = inputs;
  desc.heads = 3;
  desc.features = 5;
  desc.width = 15;
  desc.residual = 1;
  desc.steps = inputs == HEED_GRAPH_PROJECTED ? 1 : 3;
  desc.edge_width = 2;
  desc.softcap = 20;
  heed_graph_attention_plan* plan = nullptr;
  expect(heed_graph_attention_plan_create(context, graph, &desc, &plan) == HEED_STATUS_OK, "plan",
         where);
  std::size_t bytes = 0;
  expect(heed_graph_attention_plan_workspace(plan, &bytes) == HEED_STATUS_OK, "workspace", where);
  void* const workspace = std::aligned_alloc(HEED_WORKSPACE_ALIGNMENT, (bytes + 63) / 64 * 64);
  GraphTensors tensors;
  const heed_graph_attention_args args = graph_args(desc, tensors);
  const auto run = [&] {
    return heed_graph_attention_plan_run(plan, &args, workspace, bytes) == HEED_STATUS_OK;
  };
  bool ran = run();
  const std::uint64_t before = memory_requests();
  for (int i = 0; i < 3; ++i) ran = run() && ran;
  const std::uint64_t after = memory_requests();
  expect(ran, "runs over a graph", where);
  expect(after == before, "a run over a graph allocates nothing", where);
  std::free(workspace);
  heed_graph_attention_plan_destroy(plan);
  heed_graph_destroy(graph);
  heed_context_destroy(context);
}

/// The same with heed's own executor for one thread and a caller's for several.
void check_graphs(const char* isa) {
  const heed_executor executor = in_order();
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.isa = isa;
  for (const std::uint32_t inputs :
       {HEED_GRAPH_PROJECTED, HEED_GRAPH_SHARED, HEED_GRAPH_PER_NODE}) {
    options.executor = nullptr;
    options.executor_name = "serial";
    check_graph(options, inputs, isa);
    options.executor_name = nullptr;
    options.executor = &executor;
    check_graph(options, inputs, isa);
  }
}

}  // namespace

/// The executors that are threads of others may allocate inside those; heed's part is the same.
int main() {
  const heed_executor executor = in_order();
  for (std::size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info info = HEED_ISA_INFO_INIT;
    (void)heed_isa_get(i, &info);
    if (info.usable == 0) continue;
    check_graphs(info.name);
    heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
    options.isa = info.name;
    for (const bool full : {false, true}) {
      options.executor = nullptr;
      options.executor_name = "serial";
      check(options, full, info.name);
      options.executor_name = nullptr;
      options.executor = &executor;
      check(options, full, info.name);
    }
    check_block(options, HEED_COMBINE_CONCAT, info.name);
    check_block(options, HEED_COMBINE_WEIGHTED, info.name);
  }
  if (failures == 0) (void)std::puts("a run allocates nothing");
  return failures == 0 ? 0 : 1;
}
