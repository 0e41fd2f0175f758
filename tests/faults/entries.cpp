#include "tests/faults/entries.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "tests/support/executors.hpp"

namespace heed_test {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kLength = 96;
constexpr std::int64_t kFeatures = 32;
constexpr std::int64_t kWidth = kHeads * kFeatures;
constexpr std::int64_t kTrained = 600;  // more than one split
constexpr std::int64_t kTrainedFeatures = 16;
constexpr std::int64_t kNodes = 1500;
constexpr std::int64_t kEdges = 40000;
constexpr std::size_t kElements = 1 << 17;  // more than any call writes

void must(heed_status status) {
  if (status == HEED_STATUS_OK) return;
  (void)std::fprintf(stderr, "%s: %s\n", heed_status_name(status), heed_last_error());
  std::abort();
}

/// Calls create(&object) and destroys what it made; notices what it wrote in spite of a failure.
template <class Object, class Create>
int make_and_destroy(void (*destroy)(Object*), Create create) {
  Object* object = nullptr;
  const heed_status status = create(&object);
  if (status != HEED_STATUS_OK && object != nullptr) return kWroteOnFailure;
  if (status == HEED_STATUS_OK) destroy(object);
  return status;
}

int merge(Scene& s) {
  const void* const outs[] = {s.in.data(), s.in.data() + 7};
  const void* const lses[] = {s.in.data() + 11, s.in.data() + 13};
  return heed_merge(s.context, &s.merge, 2, outs, lses, s.out.data(), nullptr);
}

int rotate(Scene& s) {
  return heed_rotate(s.context, &s.rotation, s.in.data(), nullptr, s.out.data());
}

/// A matrix, prepared, and rows times it.
int project(Scene& s) {
  heed_weights* weights = nullptr;
  int status = heed_weights_create(s.context, &s.matrix, s.in.data(), s.in.data(), &weights);
  if (status != HEED_STATUS_OK) return weights != nullptr ? kWroteOnFailure : status;
  heed_project_desc desc = HEED_PROJECT_DESC_INIT;
  desc.batch = kBatch;
  desc.rows = kLength;
  status = heed_project(s.context, &desc, weights, s.in.data(), s.out.data());
  heed_weights_destroy(weights);
  return status;
}

/// A prompt, and a fork of it that goes on, attended together.
int generate(Scene& s) {
  heed_cache* cache = nullptr;
  int status = heed_cache_create(s.context, &s.cache, &cache);
  if (status != HEED_STATUS_OK) return cache != nullptr ? kWroteOnFailure : status;
  heed_sequence sequences[2] = {0, 0};
  heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
  const auto append_to = [&](heed_sequence sequence, std::int64_t rows) {
    append.rows = rows;
    return heed_cache_append(cache, sequence, &append, s.in.data(), s.in.data());
  };
  heed_attention_desc attention = s.dense;
  attention.features = attention.key_length = 0;
  heed_cache_attention_desc desc = HEED_CACHE_ATTENTION_DESC_INIT;
  desc.attention = &attention;
  desc.sequences = sequences;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = s.in.data();
  args.out = s.out.data();
  status = heed_cache_sequence_create(cache, &sequences[0]);
  if (status == HEED_STATUS_OK) status = append_to(sequences[0], kLength + 5);
  if (status == HEED_STATUS_OK) status = heed_cache_fork(cache, sequences[0], &sequences[1]);
  if (status == HEED_STATUS_OK) status = append_to(sequences[1], kLength);
  if (status == HEED_STATUS_OK) status = heed_cache_attention(cache, &desc, &args);
  heed_cache_destroy(cache);
  return status;
}

}  // namespace

const std::vector<Entry> kEntries = {
    {"heed_context_create",
     [](Scene& s) {
       return make_and_destroy(heed_context_destroy, [&](auto** context) {
         return heed_context_create(&s.options, context);
       });
     }},
    {"heed_attention_plan_create",
     [](Scene& s) {
       return make_and_destroy(heed_attention_plan_destroy, [&](auto** plan) {
         return heed_attention_plan_create(s.context, &s.dense, plan);
       });
     }},
    {"heed_attention_plan_run",
     [](Scene& s) -> int {
       return heed_attention_plan_run(s.dense_plan, &s.dense_args, s.workspace, s.workspace_bytes);
     }},
    {"heed_attention",
     [](Scene& s) -> int { return heed_attention(s.context, &s.dense, &s.dense_args); }},
    {"heed_merge", merge},
    {"heed_rotate", rotate},
    {"heed_project", project},
    {"heed_cache_attention", generate},
    {"heed_attention_backward_plan_create",
     [](Scene& s) {
       return make_and_destroy(heed_attention_backward_plan_destroy, [&](auto** plan) {
         return heed_attention_backward_plan_create(s.context, &s.backward, plan);
       });
     }},
    {"heed_attention_backward_plan_run",
     [](Scene& s) -> int {
       return heed_attention_backward_plan_run(s.backward_plan, &s.backward_args, s.workspace,
                                               s.workspace_bytes);
     }},
    {"heed_attention_backward",
     [](Scene& s) -> int {
       return heed_attention_backward(s.context, &s.backward, &s.backward_args);
     }},
    {"heed_weights_create",
     [](Scene& s) {
       return make_and_destroy(heed_weights_destroy, [&](auto** weights) {
         return heed_weights_create(s.context, &s.matrix, s.in.data(), s.in.data(), weights);
       });
     }},
    {"heed_multihead_plan_create",
     [](Scene& s) {
       return make_and_destroy(heed_multihead_plan_destroy, [&](auto** plan) {
         return heed_multihead_plan_create(s.context, &s.block, plan);
       });
     }},
    {"heed_multihead_plan_run",
     [](Scene& s) -> int {
       return heed_multihead_plan_run(s.block_plan, &s.block_args, s.workspace, s.workspace_bytes);
     }},
    {"heed_multihead",
     [](Scene& s) -> int { return heed_multihead(s.context, &s.block, &s.block_args); }},
    {"heed_multihead_backward_plan_create",
     [](Scene& s) {
       return make_and_destroy(heed_multihead_backward_plan_destroy, [&](auto** plan) {
         return heed_multihead_backward_plan_create(s.context, &s.block_backward, plan);
       });
     }},
    {"heed_multihead_backward_plan_run",
     [](Scene& s) -> int {
       return heed_multihead_backward_plan_run(s.block_backward_plan, &s.block_backward_args,
                                               s.workspace, s.workspace_bytes);
     }},
    {"heed_multihead_backward",
     [](Scene& s) -> int {
       return heed_multihead_backward(s.context, &s.block_backward, &s.block_backward_args);
     }},
    {"heed_graph_create",
     [](Scene& s) {
       return make_and_destroy(heed_graph_destroy, [&](auto** graph) {
         return heed_graph_create(s.context, &s.edges, graph);
       });
     }},
    {"heed_graph_attention_plan_create",
     [](Scene& s) {
       return make_and_destroy(heed_graph_attention_plan_destroy, [&](auto** plan) {
         return heed_graph_attention_plan_create(s.context, s.graph, &s.over_graph, plan);
       });
     }},
    {"heed_graph_attention_plan_run",
     [](Scene& s) -> int {
       return heed_graph_attention_plan_run(s.graph_plan, &s.graph_args, s.workspace,
                                            s.workspace_bytes);
     }},
    {"heed_graph_attention",
     [](Scene& s) -> int {
       return heed_graph_attention(s.context, s.graph, &s.over_graph, &s.graph_args);
     }},
    {"heed_graph_attention_backward_plan_create",
     [](Scene& s) {
       return make_and_destroy(heed_graph_attention_backward_plan_destroy, [&](auto** plan) {
         return heed_graph_attention_backward_plan_create(s.context, s.graph, &s.graph_backward,
                                                          plan);
       });
     }},
    {"heed_graph_attention_backward_plan_run",
     [](Scene& s) -> int {
       return heed_graph_attention_backward_plan_run(s.graph_backward_plan, &s.graph_backward_args,
                                                     s.workspace, s.workspace_bytes);
     }},
    {"heed_graph_attention_backward",
     [](Scene& s) -> int {
       return heed_graph_attention_backward(s.context, s.graph, &s.graph_backward,
                                            &s.graph_backward_args);
     }},
};

Scene::Scene(const char* name, const heed_allocator* allocator, std::uint32_t threads,
             const char* isa) {
  options.isa = isa;
  options.executor_name = name;
  options.allocator = allocator;
  options.threads = threads;
  if (name == nullptr) {
    executor = in_order(threads);
    options.executor = &executor;
  }
  describe();
  make();
}

Scene::~Scene() {
  std::free(workspace);
  heed_graph_attention_backward_plan_destroy(graph_backward_plan);
  heed_graph_attention_plan_destroy(graph_plan);
  heed_graph_destroy(graph);
  heed_multihead_backward_plan_destroy(block_backward_plan);
  heed_multihead_plan_destroy(block_plan);
  heed_attention_backward_plan_destroy(backward_plan);
  heed_attention_plan_destroy(dense_plan);
  heed_context_destroy(context);
}

void Scene::describe() {
  in.resize(kElements);
  for (std::size_t i = 0; i < kElements; ++i)
    in[i] = static_cast<float>((i * 7919 + 13) % 4001) / 1000.0F - 2.0F;
  out.assign(kElements, kUntouched);

  dense.batch = merge.batch = rotation.batch = kBatch;
  dense.query_heads = merge.heads = rotation.heads = kHeads;
  dense.query_length = dense.key_length = merge.rows = rotation.rows = kLength;
  dense.features = merge.features = rotation.features = kFeatures;
  rotation.rotary.pairs = cache.rotary.pairs = HEED_ROTARY_HALVES;
  cache.dtype = HEED_DTYPE_I8;
  cache.key_heads = kHeads;
  cache.features = kFeatures;
  cache.pages = 8;
  dense_args.query = dense_args.key = dense_args.value = in.data();
  dense_args.out = out.data();

  trained.batch = trained.query_heads = 1;
  trained.query_length = trained.key_length = kTrained;
  trained.features = kTrainedFeatures;
  trained.bias.batch = trained.bias.heads = trained.bias.rows = 1;
  backward.attention = &trained;
  trained_args.query = trained_args.key = trained_args.value = trained_args.bias = in.data();
  trained_args.out = in.data() + 17;  // read, as lse is
  trained_args.lse = in.data() + 19;
  backward_args.attention = &trained_args;
  backward_args.grad_out = in.data() + 23;
  float* gradient = out.data();
  const auto place = [&](void*& to, std::int64_t count) {
    to = gradient;
    gradient += count;
  };
  for (void** const to :
       {&backward_args.grad_query, &backward_args.grad_key, &backward_args.grad_value})
    place(*to, kTrained * kTrainedFeatures);
  place(backward_args.grad_bias, kTrained);
  place(backward_args.grad_scale, 1);

  matrix.in = matrix.out = kWidth;
  inner = dense;
  block.attention = &inner;
  block.width_query = kWidth;
  block_args.input_query = block_args.w_query = block_args.w_key = in.data();
  block_args.w_value = block_args.w_out = in.data();
  block_args.out = out.data();
  block_backward.block = &block;
  block_backward_args.block = &block_args;
  block_backward_args.grad_out = in.data() + 23;
  gradient = out.data();
  place(block_backward_args.grad_input_query, kBatch * kLength * kWidth);
  for (void** const to : {&block_backward_args.grad_w_query, &block_backward_args.grad_w_key,
                          &block_backward_args.grad_w_value, &block_backward_args.grad_w_out})
    place(*to, kWidth * kWidth);
  place(block_backward_args.grad_b_key, kWidth);

  for (std::int32_t e = 0; e < kEdges; ++e) {
    sources.push_back(static_cast<std::int32_t>((std::int64_t{e} * 7919 + 5) % kNodes));
    destinations.push_back(e % 8 == 0 ? 3 : static_cast<std::int32_t>(e * 31 % kNodes));
  }
  edges.nodes = kNodes;
  edges.edges = kEdges;
  edges.sources = sources.data();
  edges.destinations = destinations.data();
  edges.reverse = 1;
  over_graph.heads = 2;
  over_graph.features = 8;
  graph_args.query = graph_args.key = graph_args.value = in.data();
  graph_args.out = out.data();
  graph_backward.attention = &over_graph;
  graph_backward_args.attention = &graph_args;
  graph_backward_args.grad_out = in.data() + 23;
  gradient = out.data();
  for (void** const to : {&graph_backward_args.grad_query, &graph_backward_args.grad_key,
                          &graph_backward_args.grad_value})
    place(*to, kNodes * over_graph.heads * over_graph.features);
}

void Scene::make() {
  must(heed_context_create(&options, &context));
  must(heed_attention_plan_create(context, &dense, &dense_plan));
  must(heed_attention_backward_plan_create(context, &backward, &backward_plan));
  must(heed_multihead_plan_create(context, &block, &block_plan));
  must(heed_multihead_backward_plan_create(context, &block_backward, &block_backward_plan));
  must(heed_graph_create(context, &edges, &graph));
  must(heed_graph_attention_plan_create(context, graph, &over_graph, &graph_plan));
  must(heed_graph_attention_backward_plan_create(context, graph, &graph_backward,
                                                 &graph_backward_plan));
  std::size_t bytes[6];
  must(heed_attention_plan_workspace(dense_plan, &bytes[0]));
  must(heed_multihead_plan_workspace(block_plan, &bytes[1]));
  must(heed_graph_attention_plan_workspace(graph_plan, &bytes[2]));
  must(heed_attention_backward_plan_workspace(backward_plan, &bytes[3]));
  must(heed_multihead_backward_plan_workspace(block_backward_plan, &bytes[4]));
  must(heed_graph_attention_backward_plan_workspace(graph_backward_plan, &bytes[5]));
  workspace_bytes =
      (*std::max_element(std::begin(bytes), std::end(bytes)) / HEED_WORKSPACE_ALIGNMENT + 1) *
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
