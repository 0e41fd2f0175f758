// Every pointer of every function: those that may be NULL and those that may not.
#include "tests/api/caches.hpp"
#include "tests/api/refused.hpp"

using namespace api_test;

namespace {

void check_null(heed_status status, const std::string& name) {
  check_refusal(status, HEED_STATUS_INVALID_ARGUMENT, name + " is NULL");
  forget_last_error();
}

/// heed_..._describe of nothing, and of this object into nothing.
template <class Object, class Info>
void check_describe(heed_status (*describe)(const Object*, Info*), const Object* object,
                    const char* called) {
  Info info{};
  info.struct_size = sizeof info;
  const Info before = info;
  check_null(describe(nullptr, &info), called);
  check_null(describe(object, nullptr), "info");
  CHECK(std::memcmp(&info, &before, sizeof info) == 0);
}

}  // namespace

TEST_CASE("NULL is refused where an operation needs a struct", "[null]") {
  for (const Operation& of : operations())
    for (const StructOf& one : of.structs) {
      if (one.part != Part::kHandedIn || one.called[0] == 'o' || !one.is_of_api()) continue;
      CAPTURE(of.name, one.called);
      Form form(of, one.called + " = NULL");
      hand_in(form, one.called.rfind("args", 0) == 0,
              [&](heed_status status) { check_null(status, one.called); });
      CHECK(form.untouched());
    }
}

TEST_CASE("NULL is refused by the functions of plans", "[null]") {
  const Context context = serial();
  for (const Operation& of : operations()) {
    if (of.planned == nullptr) continue;
    CAPTURE(of.name);
    const Planned& api = *of.planned;
    Form form(of);
    const Object graph = form.graph_of(context);
    const heed_context* const c = context.get();
    const auto* const g = static_cast<const heed_graph*>(graph.get());
    const void* const desc = form.given("desc");
    const void* const args = form.given("args");
    void* made = nullptr;
    REQUIRE(api.create(c, g, desc, &made) == HEED_STATUS_OK);
    const Object plan(made, api.destroy);
    made = untouched<void>();
    std::size_t bytes = 77;
    std::vector<unsigned char> info(api.info_bytes);
    const auto info_bytes = static_cast<std::uint32_t>(api.info_bytes);
    std::memcpy(info.data(), &info_bytes, sizeof info_bytes);
    const std::vector<unsigned char> before = info;
    forget_last_error();
    check_null(api.describe(nullptr, info.data()), "plan");
    check_null(api.describe(plan.get(), nullptr), "info");
    check_null(api.create(nullptr, g, desc, &made), "context");
    check_null(api.create(c, g, desc, nullptr), "plan");
    check_null(api.workspace(nullptr, &bytes), "plan");
    check_null(api.workspace(plan.get(), nullptr), "bytes");
    check_null(api.run(nullptr, args, nullptr, 0), "plan");
    check_null(api.call(nullptr, g, desc, args), "context");
    if (g != nullptr) {
      check_null(api.create(c, nullptr, desc, &made), "graph");
      check_null(api.call(c, nullptr, desc, args), "graph");
    }
    CHECK(made == untouched<void>());
    CHECK(bytes == 77);
    CHECK(info == before);
    CHECK(form.untouched());
    api.destroy(nullptr);
  }
}

TEST_CASE("NULL is refused by the functions of contexts, and by calls without one", "[null]") {
  const Environment quiet;
  const Context context = serial();
  forget_last_error();
  check_null(heed_isa_get(0, nullptr), "info");
  check_describe(heed_context_describe, static_cast<const heed_context*>(context.get()), "context");
  check_null(heed_context_create(nullptr, nullptr), "context");
  CountingAllocator memory;
  const heed_context_options options = memory.options();
  check_null(heed_context_create(&options, nullptr), "context");
  CHECK(memory.live() == 0);
  for (const char* const of : {"merge", "rotate", "project", "matrix", "graph"}) {
    Form form(of);
    check_null(form.call(nullptr), "context");
    CHECK(form.untouched());
  }
  const heed_project_desc project = HEED_PROJECT_DESC_INIT;
  heed_weights_desc matrix = HEED_WEIGHTS_DESC_INIT;
  matrix.in = matrix.out = 1;
  const heed_graph_desc edges = HEED_GRAPH_DESC_INIT;
  const heed_cache_desc cache = two_layers();
  const Weights some_weights = prepared(context, 5, 6);
  float x = 0;
  heed_cache* made = untouched<heed_cache>();
  forget_last_error();
  check_null(heed_project(context.get(), &project, nullptr, &x, &x), "weights");
  check_null(heed_weights_create(context.get(), &matrix, &x, nullptr, nullptr), "weights");
  check_null(heed_graph_create(context.get(), &edges, nullptr), "graph");
  check_null(heed_cache_create(nullptr, &cache, &made), "context");
  check_null(heed_cache_create(context.get(), &cache, nullptr), "cache");
  check_null(heed_cache_bytes(&cache, nullptr), "bytes");
  const Graph own = heed_test::create<heed_graph>(context.get(), &edges);
  check_describe(heed_graph_describe, static_cast<const heed_graph*>(own.get()), "graph");
  check_describe(heed_weights_describe, static_cast<const heed_weights*>(some_weights.get()),
                 "weights");
  CHECK(made == untouched<heed_cache>());
  CHECK(x == 0);
}

TEST_CASE("NULL is refused by the functions of caches", "[null][cache]") {
  const FilledCache form(serial(), two_layers());
  heed_cache* const cache = form.get();
  const heed_cache_attention_desc attention = HEED_CACHE_ATTENTION_DESC_INIT;
  const heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  const heed_sequence first = form.sequences[0];
  std::size_t bytes = 77;
  heed_sequence sequence = 77;
  std::int64_t length = 77;
  unsigned char memory[64] = {};
  const heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
  forget_last_error();
  check_describe(heed_cache_describe, static_cast<const heed_cache*>(cache), "cache");
  check_null(heed_cache_sequence_create(nullptr, &sequence), "cache");
  check_null(heed_cache_sequence_create(cache, nullptr), "sequence");
  check_null(heed_cache_fork(nullptr, first, &sequence), "cache");
  check_null(heed_cache_fork(cache, first, nullptr), "fork");
  check_null(heed_cache_free(nullptr, first), "cache");
  check_null(heed_cache_truncate(nullptr, first, 0), "cache");
  check_null(heed_cache_length(nullptr, first, 0, &length), "cache");
  check_null(heed_cache_length(cache, first, 0, nullptr), "length");
  check_null(heed_cache_append(nullptr, first, &append, nullptr, nullptr), "cache");
  check_null(heed_cache_attention(nullptr, &attention, &args), "cache");
  check_null(heed_cache_save_bytes(nullptr, first, &bytes), "cache");
  check_null(heed_cache_save_bytes(cache, form.sequences[1], nullptr), "bytes");
  check_null(heed_cache_save(nullptr, first, memory, sizeof memory), "cache");
  check_null(heed_cache_save(cache, form.sequences[1], nullptr, 1 << 20), "memory");
  check_null(heed_cache_save_file(nullptr, first, 0), "cache");
  check_null(heed_cache_load(nullptr, memory, sizeof memory, &sequence), "cache");
  check_null(heed_cache_load(cache, nullptr, sizeof memory, &sequence), "memory");
  check_null(heed_cache_load(cache, memory, sizeof memory, nullptr), "sequence");
  check_null(heed_cache_load_file(nullptr, 0, &sequence), "cache");
  check_null(heed_cache_load_file(cache, 0, nullptr), "sequence");
  CHECK(bytes == 77);
  CHECK(sequence == 77);
  CHECK(length == 77);
  CHECK(form.state() == form.before);
}

TEST_CASE("NULL options are the defaults, and destroying NULL does nothing", "[null]") {
  const Environment quiet;
  heed_context* context = nullptr;
  REQUIRE(heed_context_create(nullptr, &context) == HEED_STATUS_OK);
  heed_context_destroy(context);
  heed_context_destroy(nullptr);
  heed_weights_destroy(nullptr);
  heed_graph_destroy(nullptr);
  heed_cache_destroy(nullptr);
}
