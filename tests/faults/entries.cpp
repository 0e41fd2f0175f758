#include "tests/faults/entries.hpp"

#include <algorithm>
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
constexpr std::size_t kElements = 1 << 17;  // more than any call writes
constexpr float kUntouched = -12345.678F;

/// Calls create(&object) and destroys what it made, without memory of its own.
template <class Object, class Create>
heed_status make_and_destroy(void (*destroy)(Object*), Create create) {
  Object* object = nullptr;
  const heed_status status = create(&object);
  if (status == HEED_STATUS_OK) destroy(object);
  return status == HEED_STATUS_OK || object == nullptr ? status : HEED_STATUS_INTERNAL;
}

heed_status merge(Scene& s) {
  const void* const outs[] = {s.in.data(), s.in.data() + 7};
  const void* const lses[] = {s.in.data() + 11, s.in.data() + 13};
  return heed_merge(s.context.get(), &s.merge, 2, outs, lses, s.own_out.data(), nullptr);
}

heed_status rotate(Scene& s) {
  return heed_rotate(s.context.get(), &s.rotation, s.in.data(), nullptr, s.own_out.data());
}

/// A matrix, prepared, and rows times it.
heed_status project(Scene& s) {
  heed_status status = HEED_STATUS_OK;
  const heed_status made = make_and_destroy(
      +[](heed_weights* weights) { heed_weights_destroy(weights); },
      [&](heed_weights** weights) {
        const heed_status prepared =
            heed_weights_create(s.context.get(), &s.matrix, s.in.data(), s.in.data(), weights);
        if (prepared != HEED_STATUS_OK) return prepared;
        heed_project_desc desc = HEED_PROJECT_DESC_INIT;
        desc.batch = kBatch;
        desc.rows = kLength;
        status = heed_project(s.context.get(), &desc, *weights, s.in.data(), s.own_out.data());
        return prepared;
      });
  return made == HEED_STATUS_OK ? status : made;
}

/// A prompt, and a fork of it that goes on, attended together.
heed_status generate(Scene& s) {
  heed_cache* cache = nullptr;
  heed_status status = heed_cache_create(s.context.get(), &s.cache, &cache);
  if (status != HEED_STATUS_OK) return cache != nullptr ? HEED_STATUS_INTERNAL : status;
  heed_sequence sequences[2] = {0, 0};
  heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
  const auto append_to = [&](heed_sequence sequence, std::int64_t rows) {
    append.rows = rows;
    return heed_cache_append(cache, sequence, &append, s.in.data(), s.in.data());
  };
  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  attention.batch = kBatch;
  attention.query_heads = kHeads;
  attention.query_length = kLength;
  heed_cache_attention_desc desc = HEED_CACHE_ATTENTION_DESC_INIT;
  desc.attention = &attention;
  desc.sequences = sequences;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  args.query = s.in.data();
  args.out = s.own_out.data();
  status = heed_cache_sequence_create(cache, &sequences[0]);
  if (status == HEED_STATUS_OK) status = append_to(sequences[0], kLength + 5);
  if (status == HEED_STATUS_OK) status = heed_cache_fork(cache, sequences[0], &sequences[1]);
  if (status == HEED_STATUS_OK) status = append_to(sequences[1], kLength);
  if (status == HEED_STATUS_OK) status = heed_cache_attention(cache, &desc, &args);
  heed_cache_destroy(cache);
  return status;
}

}  // namespace

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> list = {
        {"heed_context_create",
         [](Scene& s) {
           return make_and_destroy(heed_context_destroy, [&](heed_context** context) {
             return heed_context_create(&s.options, context);
           });
         }},
        {"heed_merge", merge},
        {"heed_rotate", rotate},
        {"heed_project", project},
        {"heed_cache_attention", generate},
        {"heed_weights_create",
         [](Scene& s) {
           return make_and_destroy(heed_weights_destroy, [&](heed_weights** weights) {
             return heed_weights_create(s.context.get(), &s.matrix, s.in.data(), s.in.data(),
                                        weights);
           });
         }},
        {"heed_graph_create", [](Scene& s) {
           return make_and_destroy(heed_graph_destroy, [&](heed_graph** graph) {
             return heed_graph_create(s.context.get(), &s.edges, graph);
           });
         }}};
    std::size_t i = 0;
    for (const api_test::Kind& kind : api_test::large_kinds()) {
      const std::string name = kind.name;
      list.push_back({name + ", a plan",
                      [i](Scene& s) { return s.problems[i]->make_and_destroy(s.context); }});
      list.push_back({name + ", a run", [i](Scene& s) {
                        return s.problems[i]->run(s.plans[i], s.workspace, s.workspace_bytes);
                      }});
      list.push_back({name + ", a call", [i](Scene& s) { return s.problems[i]->call(s.context); }});
      ++i;
    }
    return list;
  }();
  return all;
}

const Entry& attention_entry() {
  return *std::find_if(entries().begin(), entries().end(),
                       [](const Entry& entry) { return entry.name == "dense, a call"; });
}

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
  heed_context* made = nullptr;
  require_ok(heed_context_create(&options, &made));
  context.reset(made);
  for (const api_test::Kind& kind : api_test::large_kinds()) {
    problems.push_back(kind.problem());
    plans.emplace_back();
    if (!problems.back()->prepare_and_create(context, plans.back()))
      require_ok(HEED_STATUS_INTERNAL);
    workspace_bytes = std::max(workspace_bytes, problems.back()->workspace(plans.back()));
  }
  workspace_bytes = (workspace_bytes / HEED_WORKSPACE_ALIGNMENT + 1) * HEED_WORKSPACE_ALIGNMENT;
  workspace = std::aligned_alloc(HEED_WORKSPACE_ALIGNMENT, workspace_bytes);

  in.resize(kElements);
  for (std::size_t i = 0; i < kElements; ++i)
    in[i] = static_cast<float>((i * 7919 + 13) % 4001) / 1000.0F - 2.0F;
  own_out.assign(kElements, kUntouched);
  merge.batch = rotation.batch = kBatch;
  merge.heads = rotation.heads = kHeads;
  merge.rows = rotation.rows = kLength;
  merge.features = rotation.features = kFeatures;
  rotation.rotary.pairs = cache.rotary.pairs = HEED_ROTARY_HALVES;
  cache.dtype = HEED_DTYPE_I8;
  cache.key_heads = kHeads;
  cache.features = kFeatures;
  cache.pages = 8;
  matrix.in = matrix.out = kWidth;
  for (std::int32_t e = 0; e < kEdges; ++e) {
    sources.push_back(static_cast<std::int32_t>((std::int64_t{e} * 7919 + 5) % kNodes));
    destinations.push_back(e % 8 == 0 ? 3 : static_cast<std::int32_t>(e * 31 % kNodes));
  }
  edges.nodes = kNodes;
  edges.edges = kEdges;
  edges.sources = sources.data();
  edges.destinations = destinations.data();
  edges.reverse = 1;
}

Scene::~Scene() { std::free(workspace); }

void Scene::forget() {
  std::fill(own_out.begin(), own_out.end(), kUntouched);
  for (const auto& problem : problems) problem->forget_outputs();
}

std::vector<unsigned char> Scene::out() const {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(own_out.data());
  std::vector<unsigned char> all(bytes, bytes + own_out.size() * sizeof(float));
  for (const auto& problem : problems) {
    const std::vector<unsigned char> more = problem->outputs();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

heed_status call(const Entry& entry, Scene& scene) {
  scene.forget();
  return entry.call(scene);
}

std::vector<unsigned char> expected(const Entry& entry) {
  Scene scene("serial");
  require_ok(call(entry, scene));
  return scene.out();
}

std::vector<unsigned char> untouched(const Scene& scene) {
  std::vector<unsigned char> all(scene.out().size(), api_test::kPattern);
  for (std::size_t i = 0; i < scene.own_out.size(); ++i)
    std::memcpy(all.data() + i * sizeof kUntouched, &kUntouched, sizeof kUntouched);
  return all;
}

}  // namespace heed_test
