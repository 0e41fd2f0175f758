// Every pointer of every function: those that may be NULL and those that may not.
#include "tests/api/support.hpp"

using namespace api_test;

namespace {

/// A context, a plan for Shape{} and a workspace for it.
struct Ready {
  Context context = make_context(nullptr, "serial", 1);
  heed_attention_desc desc = desc_of(Shape{});
  Plan plan = make_plan(context, desc);
  Workspace workspace{describe(plan).workspace_bytes};
  Tensors tensors{Shape{}};
};

}  // namespace

TEST_CASE("a NULL context pointer is refused", "[null]") {
  const Environment quiet;
  forget_last_error();
  check_refusal(heed_context_create(nullptr, nullptr), HEED_STATUS_INVALID_ARGUMENT,
                {"context", "NULL"});
}

TEST_CASE("a refused NULL context pointer keeps no memory", "[null]") {
  const Environment quiet;
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = "serial";
  options.allocator = &allocator;
  CHECK(heed_context_create(&options, nullptr) == HEED_STATUS_INVALID_ARGUMENT);
  CHECK(memory.live() == 0);
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
}

TEST_CASE("NULL is refused by the functions that describe", "[null]") {
  const Ready ready;
  forget_last_error();
  check_refusal(heed_isa_get(0, nullptr), HEED_STATUS_INVALID_ARGUMENT, {"info", "NULL"});

  heed_context_info context_info = HEED_CONTEXT_INFO_INIT;
  const heed_context_info context_info_before = context_info;
  forget_last_error();
  check_refusal(heed_context_describe(nullptr, &context_info), HEED_STATUS_INVALID_ARGUMENT,
                {"context", "NULL"});
  CHECK(std::memcmp(&context_info, &context_info_before, sizeof context_info) == 0);
  forget_last_error();
  check_refusal(heed_context_describe(ready.context.get(), nullptr), HEED_STATUS_INVALID_ARGUMENT,
                {"info", "NULL"});

  heed_attention_info info = HEED_ATTENTION_INFO_INIT;
  const heed_attention_info info_before = info;
  forget_last_error();
  check_refusal(heed_attention_plan_describe(nullptr, &info), HEED_STATUS_INVALID_ARGUMENT,
                {"plan", "NULL"});
  CHECK(std::memcmp(&info, &info_before, sizeof info) == 0);
  forget_last_error();
  check_refusal(heed_attention_plan_describe(ready.plan.get(), nullptr),
                HEED_STATUS_INVALID_ARGUMENT, {"info", "NULL"});
}

TEST_CASE("NULL is refused when a plan is made", "[null]") {
  const Ready ready;
  heed_attention_plan* plan = untouched<heed_attention_plan>();
  forget_last_error();
  check_refusal(heed_attention_plan_create(nullptr, &ready.desc, &plan),
                HEED_STATUS_INVALID_ARGUMENT, {"context", "NULL"});
  forget_last_error();
  check_refusal(heed_attention_plan_create(ready.context.get(), nullptr, &plan),
                HEED_STATUS_INVALID_ARGUMENT, {"desc", "NULL"});
  CHECK(plan == untouched<heed_attention_plan>());
  forget_last_error();
  check_refusal(heed_attention_plan_create(ready.context.get(), &ready.desc, nullptr),
                HEED_STATUS_INVALID_ARGUMENT, {"plan", "NULL"});
}

TEST_CASE("NULL is refused when the workspace is asked for", "[null]") {
  const Ready ready;
  std::size_t bytes = 77;
  forget_last_error();
  check_refusal(heed_attention_plan_workspace(nullptr, &bytes), HEED_STATUS_INVALID_ARGUMENT,
                {"plan", "NULL"});
  CHECK(bytes == 77);
  forget_last_error();
  check_refusal(heed_attention_plan_workspace(ready.plan.get(), nullptr),
                HEED_STATUS_INVALID_ARGUMENT, {"bytes", "NULL"});
}

TEST_CASE("NULL is refused when a plan runs", "[null]") {
  Ready ready;
  const heed_attention_args args = ready.tensors.args();
  void* const workspace = ready.workspace.get();
  const std::size_t bytes = ready.workspace.bytes();
  forget_last_error();
  check_refusal(heed_attention_plan_run(nullptr, &args, workspace, bytes),
                HEED_STATUS_INVALID_ARGUMENT, {"plan", "NULL"});
  forget_last_error();
  check_refusal(heed_attention_plan_run(ready.plan.get(), nullptr, workspace, bytes),
                HEED_STATUS_INVALID_ARGUMENT, {"args", "NULL"});
  CHECK(ready.tensors.out_untouched());
}

TEST_CASE("NULL is refused by the one call", "[null]") {
  Ready ready;
  const heed_attention_args args = ready.tensors.args();
  forget_last_error();
  check_refusal(heed_attention(nullptr, &ready.desc, &args), HEED_STATUS_INVALID_ARGUMENT,
                {"context", "NULL"});
  forget_last_error();
  check_refusal(heed_attention(ready.context.get(), nullptr, &args), HEED_STATUS_INVALID_ARGUMENT,
                {"desc", "NULL"});
  forget_last_error();
  check_refusal(heed_attention(ready.context.get(), &ready.desc, nullptr),
                HEED_STATUS_INVALID_ARGUMENT, {"args", "NULL"});
  CHECK(ready.tensors.out_untouched());
}

TEST_CASE("a NULL tensor that has elements is refused", "[null]") {
  Ready ready;
  const auto check = [&](const char* name, auto member) {
    CAPTURE(name);
    heed_attention_args args = ready.tensors.args();
    args.*member = nullptr;
    forget_last_error();
    check_refusal(heed_attention_plan_run(ready.plan.get(), &args, ready.workspace.get(),
                                          ready.workspace.bytes()),
                  HEED_STATUS_INVALID_ARGUMENT, {name, "NULL"});
    forget_last_error();
    check_refusal(heed_attention(ready.context.get(), &ready.desc, &args),
                  HEED_STATUS_INVALID_ARGUMENT, {name, "NULL"});
    CHECK(ready.tensors.out_untouched());
  };
  check("args.query", &heed_attention_args::query);
  check("args.key", &heed_attention_args::key);
  check("args.value", &heed_attention_args::value);
  check("args.out", &heed_attention_args::out);
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
