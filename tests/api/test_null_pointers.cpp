// Every pointer of every function: those that may be NULL and those that may not.
#include "tests/api/cache_forms.hpp"
#include "tests/api/functions.hpp"
#include "tests/api/other_forms.hpp"

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

}  // namespace

TEST_CASE("NULL is refused by the functions of contexts", "[null]") {
  const Environment quiet;
  const Context context = serial();
  forget_last_error();
  check_null(heed_isa_get(0, nullptr), "info");
  heed_context_info info = HEED_CONTEXT_INFO_INIT;
  check_null(heed_context_describe(nullptr, &info), "context");
  check_null(heed_context_describe(context.get(), nullptr), "info");
  CHECK(same_bytes(info, heed_context_info HEED_CONTEXT_INFO_INIT));
  check_null(heed_context_create(nullptr, nullptr), "context");
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = serial_options(&allocator);
  check_null(heed_context_create(&options, nullptr), "context");
  CHECK(memory.live() == 0);
}

TEMPLATE_TEST_CASE("NULL is refused by the functions of operations with plans", "[null]", Form,
                   BackwardForm, BlockForm, BlockBackwardForm, GraphForm, GraphBackwardForm) {
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
  typename Api::Info info{};
  info.struct_size = sizeof info;
  const typename Api::Info before = info;
  std::size_t bytes = 77;
  forget_last_error();
  check_null(Api::create(nullptr, g, &form.desc, &made), "context");
  check_null(Api::create(c, g, nullptr, &made), "desc");
  check_null(Api::create(c, g, &form.desc, nullptr), "plan");
  check_null(Api::describe(nullptr, &info), "plan");
  check_null(Api::describe(plan.get(), nullptr), "info");
  check_null(Api::workspace(nullptr, &bytes), "plan");
  check_null(Api::workspace(plan.get(), nullptr), "bytes");
  check_null(Api::run(nullptr, &form.args, nullptr, 0), "plan");
  check_null(Api::run(plan.get(), nullptr, nullptr, 0), "args");
  check_null(Api::call(nullptr, g, &form.desc, &form.args), "context");
  check_null(Api::call(c, g, nullptr, &form.args), "desc");
  check_null(Api::call(c, g, &form.desc, nullptr), "args");
  if (g != nullptr) {
    check_null(Api::create(c, nullptr, &form.desc, &made), "graph");
    check_null(Api::call(c, nullptr, &form.desc, &form.args), "graph");
  }
  CHECK(made == untouched<typename Api::Plan>());
  CHECK(same_bytes(info, before));
  CHECK(bytes == 77);
  CHECK(form.outputs_untouched());
}

TEST_CASE("NULL is refused by the functions of graphs", "[null][graph]") {
  const Context context = serial();
  const SmallGraph form;
  const Graph graph = make_graph(context, form.desc);
  heed_graph* made = untouched<heed_graph>();
  heed_graph_info info = HEED_GRAPH_INFO_INIT;
  forget_last_error();
  check_null(heed_graph_create(nullptr, &form.desc, &made), "context");
  check_null(heed_graph_create(context.get(), nullptr, &made), "desc");
  check_null(heed_graph_create(context.get(), &form.desc, nullptr), "graph");
  check_null(heed_graph_describe(nullptr, &info), "graph");
  check_null(heed_graph_describe(graph.get(), nullptr), "info");
  CHECK(made == untouched<heed_graph>());
  CHECK(same_bytes(info, heed_graph_info HEED_GRAPH_INFO_INIT));
}

TEST_CASE(
    "NULL is refused by a merge, a rotation, a projection and the functions of prepared matrices",
    "[null][merge][rotate][weights]") {
  const Context context = serial();
  const MergeForm m;
  forget_last_error();
  check_null(heed_merge(nullptr, &m.desc, 3, m.outs, m.lses, m.to_out, nullptr), "context");
  check_null(heed_merge(context.get(), nullptr, 3, m.outs, m.lses, m.to_out, nullptr), "desc");
  CHECK(m.outputs_untouched());

  const RotateForm r;
  forget_last_error();
  check_null(heed_rotate(nullptr, &r.desc, r.from, nullptr, r.to), "context");
  check_null(heed_rotate(context.get(), nullptr, r.from, nullptr, r.to), "desc");
  CHECK(r.outputs_untouched());

  const ProjectForm p;
  forget_last_error();
  check_null(heed_project(nullptr, &p.desc, p.weights, p.x, p.y), "context");
  check_null(heed_project(context.get(), nullptr, p.weights, p.x, p.y), "desc");
  check_null(heed_project(context.get(), &p.desc, nullptr, p.x, p.y), "weights");
  CHECK(p.outputs_untouched());

  const MatrixForm form;
  const Weights ready = prepared(context, 3, 4);
  heed_weights* weights = untouched<heed_weights>();
  heed_weights_info info = HEED_WEIGHTS_INFO_INIT;
  forget_last_error();
  check_null(heed_weights_create(nullptr, &form.desc, form.matrix, nullptr, &weights), "context");
  check_null(heed_weights_create(context.get(), nullptr, form.matrix, nullptr, &weights), "desc");
  check_null(heed_weights_create(context.get(), &form.desc, form.matrix, nullptr, nullptr),
             "weights");
  check_null(heed_weights_describe(nullptr, &info), "weights");
  check_null(heed_weights_describe(ready.get(), nullptr), "info");
  CHECK(weights == untouched<heed_weights>());
  CHECK(same_bytes(info, heed_weights_info HEED_WEIGHTS_INFO_INIT));
}

TEST_CASE("NULL is refused by the functions of caches", "[null][cache]") {
  const Context context = serial();
  CacheAttentionForm form;
  form.make();
  heed_cache* const cache = form.cache.get();
  const heed_sequence first = form.sequences[0];
  heed_cache* made = untouched<heed_cache>();
  std::size_t bytes = 77;
  heed_sequence sequence = 77;
  std::int64_t length = 77;
  heed_cache_info info = HEED_CACHE_INFO_INIT;
  const heed_cache_append_desc append = HEED_CACHE_APPEND_DESC_INIT;
  forget_last_error();
  check_null(heed_cache_bytes(nullptr, &bytes), "desc");
  check_null(heed_cache_bytes(&form.desc, nullptr), "bytes");
  check_null(heed_cache_create(nullptr, &form.desc, &made), "context");
  check_null(heed_cache_create(context.get(), nullptr, &made), "desc");
  check_null(heed_cache_create(context.get(), &form.desc, nullptr), "cache");
  check_null(heed_cache_describe(nullptr, &info), "cache");
  check_null(heed_cache_describe(cache, nullptr), "info");
  check_null(heed_cache_sequence_create(nullptr, &sequence), "cache");
  check_null(heed_cache_sequence_create(cache, nullptr), "sequence");
  check_null(heed_cache_fork(nullptr, first, &sequence), "cache");
  check_null(heed_cache_fork(cache, first, nullptr), "fork");
  check_null(heed_cache_free(nullptr, first), "cache");
  check_null(heed_cache_truncate(nullptr, first, 0), "cache");
  check_null(heed_cache_length(nullptr, first, 0, &length), "cache");
  check_null(heed_cache_length(cache, first, 0, nullptr), "length");
  check_null(heed_cache_append(nullptr, first, &append, nullptr, nullptr), "cache");
  check_null(heed_cache_append(cache, first, nullptr, nullptr, nullptr), "desc");
  check_null(heed_cache_attention(nullptr, &form.call, &form.args), "cache");
  check_null(heed_cache_attention(cache, nullptr, &form.args), "desc");
  check_null(heed_cache_attention(cache, &form.call, nullptr), "args");
  CHECK(made == untouched<heed_cache>());
  CHECK(bytes == 77);
  CHECK(sequence == 77);
  CHECK(length == 77);
  CHECK(same_bytes(info, heed_cache_info HEED_CACHE_INFO_INIT));
  CHECK(form.outputs_untouched());
  CHECK(form.state() == form.before);
}

TEST_CASE("NULL options are the defaults", "[null]") {
  const Environment quiet;
  heed_context* context = nullptr;
  REQUIRE(heed_context_create(nullptr, &context) == HEED_STATUS_OK);
  heed_context_destroy(context);
}

TEST_CASE("destroying NULL does nothing", "[null]") {
  heed_context_destroy(nullptr);
  heed_attention_plan_destroy(nullptr);
  heed_weights_destroy(nullptr);
  heed_multihead_plan_destroy(nullptr);
  heed_graph_destroy(nullptr);
  heed_graph_attention_plan_destroy(nullptr);
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
