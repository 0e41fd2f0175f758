// Every pointer of every function: those that may be NULL and those that may not.
#include "tests/api/forms.hpp"
#include "tests/api/graphs.hpp"
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

/// The functions of an operation with plans.
template <class AForm, class Create, class Describe, class Info, class Workspace, class Run,
          class Once>
void check_nulls(const Create& create, const Describe& describe, Info info, const Workspace& room,
                 const Run& run, const Once& once) {
  const Context context = serial();
  const heed_context* const c = context.get();
  const AForm form;
  using Made = typename AForm::plan_type;
  Made* made = nullptr;
  REQUIRE(form.plan(context, &made) == HEED_STATUS_OK);
  const std::unique_ptr<Made, Destroy> ready(made);
  made = untouched<Made>();
  const Info before = info;
  std::size_t bytes = 77;
  forget_last_error();
  check_null(create(nullptr, &form.desc, &made), "context");
  check_null(create(c, nullptr, &made), "desc");
  check_null(create(c, &form.desc, nullptr), "plan");
  check_null(describe(nullptr, &info), "plan");
  check_null(describe(ready.get(), nullptr), "info");
  check_null(room(nullptr, &bytes), "plan");
  check_null(room(ready.get(), nullptr), "bytes");
  check_null(run(nullptr, &form.args, nullptr, 0), "plan");
  check_null(run(ready.get(), nullptr, nullptr, 0), "args");
  check_null(once(nullptr, &form.desc, &form.args), "context");
  check_null(once(c, nullptr, &form.args), "desc");
  check_null(once(c, &form.desc, nullptr), "args");
  CHECK(made == untouched<Made>());
  CHECK(same_bytes(info, before));
  CHECK(bytes == 77);
  CHECK(form.outputs_untouched());
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
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = "serial";
  options.allocator = &allocator;
  check_null(heed_context_create(&options, nullptr), "context");
  CHECK(memory.live() == 0);
}

TEST_CASE("NULL is refused by the functions of dense attention and blocks", "[null][multihead]") {
  check_nulls<Form>(heed_attention_plan_create, heed_attention_plan_describe,
                    heed_attention_info HEED_ATTENTION_INFO_INIT, heed_attention_plan_workspace,
                    heed_attention_plan_run, heed_attention);
  check_nulls<BlockForm>(heed_multihead_plan_create, heed_multihead_plan_describe,
                         heed_multihead_info HEED_MULTIHEAD_INFO_INIT,
                         heed_multihead_plan_workspace, heed_multihead_plan_run, heed_multihead);
}

TEST_CASE("NULL is refused by the functions of graphs", "[null][graph]") {
  const Context context = serial();
  const GraphForm form;
  const Graph graph = make_graph(context, form.graph.desc);
  heed_graph* made = untouched<heed_graph>();
  heed_graph_info info = HEED_GRAPH_INFO_INIT;
  forget_last_error();
  check_null(heed_graph_create(nullptr, &form.graph.desc, &made), "context");
  check_null(heed_graph_create(context.get(), nullptr, &made), "desc");
  check_null(heed_graph_create(context.get(), &form.graph.desc, nullptr), "graph");
  check_null(heed_graph_describe(nullptr, &info), "graph");
  check_null(heed_graph_describe(graph.get(), nullptr), "info");
  CHECK(made == untouched<heed_graph>());
  CHECK(same_bytes(info, heed_graph_info HEED_GRAPH_INFO_INIT));

  using Desc = heed_graph_attention_desc;
  const auto create = [&](const heed_context* c, const Desc* desc,
                          heed_graph_attention_plan** plan) {
    return heed_graph_attention_plan_create(c, graph.get(), desc, plan);
  };
  const auto once = [&](const heed_context* c, const Desc* desc,
                        const heed_graph_attention_args* args) {
    return heed_graph_attention(c, graph.get(), desc, args);
  };
  check_nulls<GraphForm>(create, heed_graph_attention_plan_describe,
                         heed_graph_attention_info HEED_GRAPH_ATTENTION_INFO_INIT,
                         heed_graph_attention_plan_workspace, heed_graph_attention_plan_run, once);
  heed_graph_attention_plan* plan = untouched<heed_graph_attention_plan>();
  check_null(heed_graph_attention_plan_create(context.get(), nullptr, &form.desc, &plan), "graph");
  check_null(heed_graph_attention(context.get(), nullptr, &form.desc, &form.args), "graph");
  CHECK(plan == untouched<heed_graph_attention_plan>());
}

TEST_CASE("NULL is refused by a merge and by the functions of prepared matrices",
          "[null][merge][weights]") {
  const Context context = serial();
  const MergeForm m;
  forget_last_error();
  check_null(heed_merge(nullptr, &m.desc, 3, m.outs, m.lses, m.to_out, nullptr), "context");
  check_null(heed_merge(context.get(), nullptr, 3, m.outs, m.lses, m.to_out, nullptr), "desc");
  CHECK(m.outputs_untouched());

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
