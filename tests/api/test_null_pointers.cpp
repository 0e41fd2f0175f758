// Every pointer of every function: those that may be NULL and those that may not. (For those of
// blocks, graphs, merges and prepared matrices see their refusals.)
#include "tests/api/problems.hpp"

using namespace api_test;

namespace {

/// The pointer that is NULL, and the call.
struct NullCall {
  const char* name;
  std::function<heed_status()> call;
};

void check_refused(const std::vector<NullCall>& calls) {
  for (const NullCall& null : calls) {
    CAPTURE(&null - calls.data());
    forget_last_error();
    check_refusal(null.call(), HEED_STATUS_INVALID_ARGUMENT, {null.name, "NULL"});
  }
}

}  // namespace

TEST_CASE("a refused NULL context pointer keeps no memory", "[null]") {
  const Environment quiet;
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = serial_options(allocator);
  check_refused({{"context", [&] { return heed_context_create(nullptr, nullptr); }},
                 {"context", [&] { return heed_context_create(&options, nullptr); }}});
  CHECK(memory.live() == 0);
}

TEST_CASE("NULL options are the defaults, and destroying NULL does nothing", "[null]") {
  const Environment quiet;
  heed_context* context = nullptr;
  REQUIRE(heed_context_create(nullptr, &context) == HEED_STATUS_OK);
  heed_context_destroy(context);
  heed_context_destroy(nullptr);
  heed_attention_plan_destroy(nullptr);
}

TEST_CASE("NULL is refused by the functions of contexts and dense attention", "[null]") {
  const Context context = serial();
  const Form form;
  const Plan plan = make_plan(context, form.desc);
  const Workspace workspace(describe(plan).workspace_bytes);
  heed_context_info context_info = HEED_CONTEXT_INFO_INIT;
  heed_attention_info info = HEED_ATTENTION_INFO_INIT;
  heed_attention_plan* made = untouched<heed_attention_plan>();
  std::size_t bytes = 77;
  check_refused({
      {"info", [&] { return heed_isa_get(0, nullptr); }},
      {"context", [&] { return heed_context_describe(nullptr, &context_info); }},
      {"info", [&] { return heed_context_describe(context.get(), nullptr); }},
      {"context", [&] { return heed_attention_plan_create(nullptr, &form.desc, &made); }},
      {"desc", [&] { return heed_attention_plan_create(context.get(), nullptr, &made); }},
      {"plan", [&] { return heed_attention_plan_create(context.get(), &form.desc, nullptr); }},
      {"plan", [&] { return heed_attention_plan_describe(nullptr, &info); }},
      {"info", [&] { return heed_attention_plan_describe(plan.get(), nullptr); }},
      {"plan", [&] { return heed_attention_plan_workspace(nullptr, &bytes); }},
      {"bytes", [&] { return heed_attention_plan_workspace(plan.get(), nullptr); }},
      {"plan",
       [&] {
         return heed_attention_plan_run(nullptr, &form.args, workspace.get(), workspace.bytes());
       }},
      {"args",
       [&] {
         return heed_attention_plan_run(plan.get(), nullptr, workspace.get(), workspace.bytes());
       }},
      {"context", [&] { return heed_attention(nullptr, &form.desc, &form.args); }},
      {"desc", [&] { return heed_attention(context.get(), nullptr, &form.args); }},
      {"args", [&] { return heed_attention(context.get(), &form.desc, nullptr); }},
  });
  CHECK(form.outputs_untouched());
  CHECK(made == untouched<heed_attention_plan>());
  CHECK(bytes == 77);
  CHECK(context_info.isa == nullptr);
  CHECK(info.isa == nullptr);
}

TEST_CASE("a NULL tensor that has elements is refused", "[null]") {
  const Context context = serial();
  Object plan;
  const Kind& dense = kinds().front();
  REQUIRE(dense.problem()->create(context, plan) == HEED_STATUS_OK);
  for (const char* const name : {"args.query", "args.key", "args.value", "args.out"}) {
    const std::unique_ptr<Problem> problem = dense.problem();
    std::vector<Tensor>& all = problem->tensors;
    problem->tensor(name).point_at(nullptr);
    all.erase(std::remove_if(all.begin(), all.end(), [&](auto& t) { return t.name == name; }),
              all.end());
    check_refused({{name, [&] { return problem->run(plan); }},
                   {name, [&] { return problem->call(context); }}});
    CHECK(problem->untouched());
  }
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
