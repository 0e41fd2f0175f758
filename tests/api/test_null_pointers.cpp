// Every pointer of every function: those that may be NULL and those that may not.
#include "tests/api/operations.hpp"

using namespace api_test;

namespace {

void check_null(heed_status status, const std::string& name) {
  check_refusal(status, HEED_STATUS_INVALID_ARGUMENT, name + " is NULL");
  forget_last_error();
}

template <class T>
bool same_bytes(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
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
  CHECK(same_bytes(info, before));
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("NULL is refused where an operation needs a struct", "[null]", All) {
  const std::size_t slots = TestType().slots().size();
  for (std::size_t i = 0; i < slots; ++i) {
    TestType form;
    const Slot slot = form.slots()[i];
    if (slot.optional) continue;
    *slot.pointer = nullptr;
    hand_in(form, slot.called.rfind("args", 0) == 0,
            [&](heed_status status) { check_null(status, slot.called); });
    CHECK(form.outputs_untouched());
  }
}

TEMPLATE_LIST_TEST_CASE("NULL is refused by the functions of plans", "[null]", Planned) {
  using Api = Functions<TestType>;
  const Context context = serial();
  const TestType form;
  const Graph graph = graph_of(context, form);
  const heed_context* const c = context.get();
  const heed_graph* const g = graph.get();
  typename Api::Plan* made = nullptr;
  REQUIRE(Api::create(c, g, &form.desc, &made) == HEED_STATUS_OK);
  const std::unique_ptr<typename Api::Plan, Destroy> plan(made);
  made = untouched<typename Api::Plan>();
  std::size_t bytes = 77;
  forget_last_error();
  check_describe(Api::describe, plan.get(), "plan");
  check_null(Api::create(nullptr, g, &form.desc, &made), "context");
  check_null(Api::create(c, g, &form.desc, nullptr), "plan");
  check_null(Api::workspace(nullptr, &bytes), "plan");
  check_null(Api::workspace(plan.get(), nullptr), "bytes");
  check_null(Api::run(nullptr, &form.args, nullptr, 0), "plan");
  check_null(Api::call(nullptr, g, &form.desc, &form.args), "context");
  if (g != nullptr) {
    check_null(Api::create(c, nullptr, &form.desc, &made), "graph");
    check_null(Api::call(c, nullptr, &form.desc, &form.args), "graph");
  }
  CHECK(made == untouched<typename Api::Plan>());
  CHECK(bytes == 77);
  CHECK(form.outputs_untouched());
  Api::destroy(nullptr);
}

TEST_CASE("NULL is refused by the functions of contexts, and by calls without one", "[null]") {
  const Environment quiet;
  const Context context = serial();
  heed_context* const none = nullptr;
  forget_last_error();
  check_null(heed_isa_get(0, nullptr), "info");
  check_describe(heed_context_describe, static_cast<const heed_context*>(context.get()), "context");
  check_null(heed_context_create(nullptr, nullptr), "context");
  CountingAllocator memory;
  const heed_context_options options = memory.options();
  check_null(heed_context_create(&options, nullptr), "context");
  CHECK(memory.live() == 0);
  MergeForm merge;
  RotateForm rotate;
  ProjectForm project;
  MatrixForm matrix;
  SmallGraph edges;
  CacheForm cache;
  heed_weights* weights = untouched<heed_weights>();
  heed_graph* graph = untouched<heed_graph>();
  heed_cache* made = untouched<heed_cache>();
  forget_last_error();
  check_null(heed_merge(none, &merge.desc, 3, merge.outs, merge.lses, merge.to_out, nullptr),
             "context");
  check_null(heed_rotate(none, &rotate.desc, rotate.from, nullptr, rotate.to), "context");
  check_null(heed_project(none, &project.desc, project.weights, project.x, project.y), "context");
  check_null(heed_project(context.get(), &project.desc, nullptr, project.x, project.y), "weights");
  check_null(heed_weights_create(none, &matrix.desc, matrix.matrix, nullptr, &weights), "context");
  check_null(heed_weights_create(context.get(), &matrix.desc, matrix.matrix, nullptr, nullptr),
             "weights");
  check_null(heed_graph_create(none, &edges.desc, &graph), "context");
  check_null(heed_graph_create(context.get(), &edges.desc, nullptr), "graph");
  check_null(heed_cache_create(none, &cache.desc, &made), "context");
  check_null(heed_cache_create(context.get(), &cache.desc, nullptr), "cache");
  check_null(heed_cache_bytes(&cache.desc, nullptr), "bytes");
  const Graph own = make_graph(context, edges.desc);
  check_describe(heed_graph_describe, static_cast<const heed_graph*>(own.get()), "graph");
  check_describe(heed_weights_describe, project.weights, "weights");
  CHECK(weights == untouched<heed_weights>());
  CHECK(graph == untouched<heed_graph>());
  CHECK(made == untouched<heed_cache>());
  CHECK((merge.outputs_untouched() && rotate.outputs_untouched() && project.outputs_untouched()));
}

TEST_CASE("NULL is refused by the functions of caches", "[null][cache]") {
  CacheAttentionForm form;
  form.make();
  heed_cache* const cache = form.cache.get();
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
  check_null(heed_cache_attention(nullptr, &form.call, &form.args), "cache");
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
  CHECK(form.outputs_untouched());
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

TEST_CASE("heed_version fills what it is given", "[null]") {
  int major = -1;
  int minor = -1;
  heed_version(&major, nullptr, nullptr);
  heed_version(nullptr, &minor, nullptr);
  heed_version(nullptr, nullptr, nullptr);
  CHECK(major == HEED_VERSION_MAJOR);
  CHECK(minor == HEED_VERSION_MINOR);
}
