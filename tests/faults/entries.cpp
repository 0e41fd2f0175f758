#include "tests/faults/entries.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace heed_test {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kLength = 96;
constexpr std::int64_t kFeatures = 32;
constexpr std::int64_t kWidth = kHeads * kFeatures;
constexpr std::int64_t kNodes = 1500;
constexpr std::int64_t kEdges = 40000;
constexpr std::size_t kElements = 1 << 15;  // more than any tensor has

void must(heed_status status) {
  if (status == HEED_STATUS_OK) return;
  (void)std::fprintf(stderr, "%s: %s\n", heed_status_name(status), heed_last_error());
  std::abort();
}

/// Destroys what was made; notices what was written in spite of a failure.
template <class Object>
int made(heed_status status, Object* const& object, void (*destroy)(Object*)) {
  if (status == HEED_STATUS_OK) {
    destroy(object);
  } else if (object != nullptr) {
    return kWroteOnFailure;
  }
  return status;
}

int create_context(Scene& s) {
  heed_context* context = nullptr;
  return made(heed_context_create(&s.options, &context), context, heed_context_destroy);
}
int create_dense_plan(Scene& s) {
  heed_attention_plan* plan = nullptr;
  return made(heed_attention_plan_create(s.context, &s.dense, &plan), plan,
              heed_attention_plan_destroy);
}
int run_dense_plan(Scene& s) {
  return heed_attention_plan_run(s.dense_plan, &s.dense_args, s.workspace, s.workspace_bytes);
}
int attend(Scene& s) { return heed_attention(s.context, &s.dense, &s.dense_args); }
int merge(Scene& s) {
  const void* const outs[] = {s.in.data(), s.in.data() + 7};
  const void* const lses[] = {s.in.data() + 11, s.in.data() + 13};
  return heed_merge(s.context, &s.merge, 2, outs, lses, s.out.data(), nullptr);
}
int create_weights(Scene& s) {
  heed_weights* weights = nullptr;
  return made(heed_weights_create(s.context, &s.matrix, s.in.data(), s.in.data(), &weights),
              weights, heed_weights_destroy);
}
int create_block_plan(Scene& s) {
  heed_multihead_plan* plan = nullptr;
  return made(heed_multihead_plan_create(s.context, &s.block, &plan), plan,
              heed_multihead_plan_destroy);
}
int run_block_plan(Scene& s) {
  return heed_multihead_plan_run(s.block_plan, &s.block_args, s.workspace, s.workspace_bytes);
}
int run_block(Scene& s) { return heed_multihead(s.context, &s.block, &s.block_args); }
int create_graph(Scene& s) {
  heed_graph* graph = nullptr;
  return made(heed_graph_create(s.context, &s.edges, &graph), graph, heed_graph_destroy);
}
int create_graph_plan(Scene& s) {
  heed_graph_attention_plan* plan = nullptr;
  return made(heed_graph_attention_plan_create(s.context, s.graph, &s.over_graph, &plan), plan,
              heed_graph_attention_plan_destroy);
}
int run_graph_plan(Scene& s) {
  return heed_graph_attention_plan_run(s.graph_plan, &s.graph_args, s.workspace, s.workspace_bytes);
}
int attend_over_graph(Scene& s) {
  return heed_graph_attention(s.context, s.graph, &s.over_graph, &s.graph_args);
}

void run_in_order(void*, std::uint32_t count, void (*body)(void*, std::uint32_t), void* argument) {
  for (std::uint32_t i = 0; i < count; ++i) body(argument, i);
}

}  // namespace

const std::vector<Entry> kEntries = {
    {"heed_context_create", create_context},
    {"heed_attention_plan_create", create_dense_plan},
    {"heed_attention_plan_run", run_dense_plan},
    {"heed_attention", attend},
    {"heed_merge", merge},
    {"heed_weights_create", create_weights},
    {"heed_multihead_plan_create", create_block_plan},
    {"heed_multihead_plan_run", run_block_plan},
    {"heed_multihead", run_block},
    {"heed_graph_create", create_graph},
    {"heed_graph_attention_plan_create", create_graph_plan},
    {"heed_graph_attention_plan_run", run_graph_plan},
    {"heed_graph_attention", attend_over_graph},
};

Scene::Scene(const char* name, const heed_allocator* allocator, std::uint32_t threads,
             const char* isa) {
  options.isa = isa;
  options.executor_name = name;
  options.allocator = allocator;
  options.threads = threads;
  if (name == nullptr) {
    executor.threads = threads;
    executor.run = run_in_order;
    options.executor = &executor;
  }
  describe();
  make();
}

Scene::~Scene() {
  std::free(workspace);
  heed_graph_attention_plan_destroy(graph_plan);
  heed_graph_destroy(graph);
  heed_multihead_plan_destroy(block_plan);
  heed_attention_plan_destroy(dense_plan);
  heed_context_destroy(context);
}

void Scene::describe() {
  in.resize(kElements);
  for (std::size_t i = 0; i < kElements; ++i)
    in[i] = static_cast<float>((i * 7919 + 13) % 4001) / 1000.0F - 2.0F;
  out.assign(kElements, kUntouched);

  dense.batch = merge.batch = kBatch;
  dense.query_heads = merge.heads = kHeads;
  dense.query_length = dense.key_length = merge.rows = kLength;
  dense.features = merge.features = kFeatures;
  dense_args.query = dense_args.key = dense_args.value = in.data();
  dense_args.out = out.data();

  matrix.in = matrix.out = kWidth;
  inner = dense;
  block.attention = &inner;
  block.width_query = kWidth;
  block_args.input_query = block_args.w_query = block_args.w_key = in.data();
  block_args.w_value = block_args.w_out = in.data();
  block_args.out = out.data();

  for (std::int32_t e = 0; e < kEdges; ++e) {
    sources.push_back(static_cast<std::int32_t>((std::int64_t{e} * 7919 + 5) % kNodes));
    destinations.push_back(e % 8 == 0 ? 3 : static_cast<std::int32_t>(e * 31 % kNodes));
  }
  edges.nodes = kNodes;
  edges.edges = kEdges;
  edges.sources = sources.data();
  edges.destinations = destinations.data();
  over_graph.heads = 2;
  over_graph.features = 8;
  graph_args.query = graph_args.key = graph_args.value = in.data();
  graph_args.out = out.data();
}

void Scene::make() {
  must(heed_context_create(&options, &context));
  must(heed_attention_plan_create(context, &dense, &dense_plan));
  must(heed_multihead_plan_create(context, &block, &block_plan));
  must(heed_graph_create(context, &edges, &graph));
  must(heed_graph_attention_plan_create(context, graph, &over_graph, &graph_plan));
  std::size_t bytes[3];
  must(heed_attention_plan_workspace(dense_plan, &bytes[0]));
  must(heed_multihead_plan_workspace(block_plan, &bytes[1]));
  must(heed_graph_attention_plan_workspace(graph_plan, &bytes[2]));
  workspace_bytes = (*std::max_element(bytes, bytes + 3) / HEED_WORKSPACE_ALIGNMENT + 1) *
                    HEED_WORKSPACE_ALIGNMENT;
  workspace = std::aligned_alloc(HEED_WORKSPACE_ALIGNMENT, workspace_bytes);
}

int call(const Entry& entry, Scene& scene) {
  std::fill(scene.out.begin(), scene.out.end(), kUntouched);
  return entry.call(scene);
}

std::vector<float> expected(const Entry& entry) {
  Scene scene("serial");
  must(static_cast<heed_status>(call(entry, scene)));
  return scene.out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace heed_test
