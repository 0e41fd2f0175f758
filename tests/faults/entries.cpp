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
constexpr std::size_t kElements = 1 << 17;  // more than any call writes
constexpr float kUntouched = -12345.678F;

/// Makes a plan of a problem and destroys it, without memory of its own.
heed_status make_plan(Scene& s, std::size_t i) {
  api_test::Form& form = *s.problems[i];
  const api_test::Planned& functions = *form.of.planned;
  void* plan = nullptr;
  const heed_status status = functions.create(
      s.context.get(), static_cast<heed_graph*>(form.graph.get()), form.given("desc"), &plan);
  if (status == HEED_STATUS_OK) functions.destroy(plan);
  return status == HEED_STATUS_OK || plan == nullptr ? status : HEED_STATUS_INTERNAL;
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
        {"heed_context_create", [](Scene& s) { return api_test::try_context(s.options); }},
        {"heed_cache_attention", generate}};
    std::size_t i = 0;
    for (const api_test::Kind& kind : api_test::large_kinds()) {
      const std::string name = kind.name;
      list.push_back({name + ", a plan", [i](Scene& s) { return make_plan(s, i); }});
      list.push_back({name + ", a run", [i](Scene& s) {
                        return s.problems[i]->run(s.plans[i], s.workspace->get(),
                                                  s.workspace->bytes());
                      }});
      list.push_back({name + ", a call", [i](Scene& s) { return s.problems[i]->call(s.context); }});
      ++i;
    }
    for (const api_test::Kind& kind : api_test::unplanned_kinds()) {
      list.push_back({kind.name, [i](Scene& s) { return s.problems[i]->call(s.context); }});
      ++i;
    }
    return list;
  }();
  return all;
}

bool built_in(const char* executor) {
  if (executor == nullptr) return true;
  const std::vector<std::string> all = api_test::executors();
  return std::find(all.begin(), all.end(), executor) != all.end();
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
  std::size_t workspace_bytes = 0;
  for (const api_test::Kind& kind : api_test::large_kinds()) {
    problems.push_back(kind.problem());
    plans.emplace_back();
    if (!problems.back()->prepare_and_create(context, plans.back()))
      require_ok(HEED_STATUS_INTERNAL);
    workspace_bytes =
        std::max(workspace_bytes, problems.back()->describe(plans.back()).workspace_bytes);
  }
  workspace = std::make_unique<Workspace>(workspace_bytes);
  for (const api_test::Kind& kind : api_test::unplanned_kinds()) {
    problems.push_back(kind.problem());
    require_ok(problems.back()->prepare(context));
  }
  in.resize(kElements);
  for (std::size_t i = 0; i < kElements; ++i)
    in[i] = static_cast<float>((i * 7919 + 13) % 4001) / 1000.0F - 2.0F;
  own_out.assign(kElements, kUntouched);
  cache.rotary.pairs = HEED_ROTARY_HALVES;
  cache.dtype = HEED_DTYPE_I8;
  cache.key_heads = kHeads;
  cache.features = kFeatures;
  cache.pages = 8;
}

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
