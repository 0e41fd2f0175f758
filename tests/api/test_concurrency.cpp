// Contexts and plans are immutable: many threads use the same one at once.
#include <thread>

#include "tests/api/support.hpp"
#include "tests/api/threads.hpp"

using namespace api_test;

namespace {

Shape shape_to_share() {
  Shape shape;
  shape.batch = 2;
  shape.query_heads = 4;
  shape.key_heads = 2;
  shape.query_length = 120;
  shape.key_length = 160;
  shape.features = shape.value_features = 32;
  shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  return shape;
}

/// A run with tensors and workspace of its own gives `expected`.
bool run_gives(const Plan& plan, const Shape& shape, std::size_t bytes,
               const std::vector<float>& expected) {
  const Workspace workspace(bytes);
  Tensors tensors(shape);
  const heed_attention_args args = tensors.args();
  return heed_attention_plan_run(plan.get(), &args, workspace.get(), bytes) == HEED_STATUS_OK &&
         same_bits(tensors.out, expected);
}

}  // namespace

TEST_CASE("one plan runs on many threads at once", "[concurrency][threads]") {
  const Environment quiet;
  const Shape shape = shape_to_share();
  const std::vector<float> expected =
      run(make_context(nullptr, "serial", 1), shape, Tensors(shape));
  for (const std::string& name : executors()) {
    CAPTURE(name);
    const Context context = make_context(nullptr, name.c_str(), 2);
    const Plan plan = make_plan(context, desc_of(shape));
    const std::size_t bytes = describe(plan).workspace_bytes;
    CHECK(on_all_threads([&](int) {
      for (int repeat = 0; repeat < 5; ++repeat)
        if (!run_gives(plan, shape, bytes, expected)) return false;
      return true;
    }));
  }
}

TEST_CASE("plans are made and destroyed from one context on many threads",
          "[concurrency][threads]") {
  const Environment quiet;
  const Shape shape;
  const std::vector<float> expected =
      run(make_context(nullptr, "serial", 1), shape, Tensors(shape));
  for (const std::string& name : executors()) {
    CAPTURE(name);
    const Context context = make_context(nullptr, name.c_str(), 2);
    const heed_attention_desc desc = desc_of(shape);
    CHECK(on_all_threads([&](int) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        heed_attention_plan* made = nullptr;
        if (heed_attention_plan_create(context.get(), &desc, &made) != HEED_STATUS_OK) return false;
        const Plan plan(made);
        std::size_t bytes = 0;
        if (heed_attention_plan_workspace(made, &bytes) != HEED_STATUS_OK) return false;
        if (!run_gives(plan, shape, bytes, expected)) return false;
      }
      return true;
    }));
  }
}

TEST_CASE("contexts are made, used and destroyed on many threads", "[concurrency][threads]") {
  const Environment quiet;
  const Shape shape;
  const std::vector<float> expected =
      run(make_context(nullptr, "serial", 1), shape, Tensors(shape));
  const std::vector<std::string> names = executors();
  CHECK(on_all_threads([&](int t) {
    const heed_attention_desc desc = desc_of(shape);
    for (int repeat = 0; repeat < 10; ++repeat) {
      heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
      options.executor_name = names[static_cast<std::size_t>(t) % names.size()].c_str();
      options.threads = 2;
      heed_context* made = nullptr;
      if (heed_context_create(&options, &made) != HEED_STATUS_OK) return false;
      const Context context(made);
      Tensors tensors(shape);
      const heed_attention_args args = tensors.args();
      if (heed_attention(made, &desc, &args) != HEED_STATUS_OK) return false;
      if (!same_bits(tensors.out, expected)) return false;
    }
    return true;
  }));
}

TEST_CASE("errors on many threads do not mix", "[concurrency][threads]") {
  CHECK(on_all_threads([](int t) {
    const std::string value = "index is " + std::to_string(1000 + t) + ";";
    for (int repeat = 0; repeat < 1000; ++repeat) {
      heed_isa_info info = HEED_ISA_INFO_INIT;
      if (heed_isa_get(static_cast<std::size_t>(1000 + t), &info) != HEED_STATUS_INVALID_ARGUMENT)
        return false;
      if (std::string(heed_last_error()).find(value) != 0) return false;
    }
    return true;
  }));
}

TEST_CASE("a plan outlives its context", "[concurrency]") {
  const Environment quiet;
  const Shape shape = shape_to_share();
  Context context = make_context(nullptr, "serial", 1);
  const std::vector<float> expected = run(context, shape, Tensors(shape));
  const Plan plan = make_plan(context, desc_of(shape));
  const Plan other = make_plan(context, desc_of(shape));
  context.reset();
  const heed_attention_info info = describe(plan);
  CHECK(std::string(info.executor) == "serial");
  CHECK(run_gives(plan, shape, info.workspace_bytes, expected));
  CHECK(run_gives(other, shape, info.workspace_bytes, expected));
}

TEST_CASE("a plan outlives its context, whatever executes it", "[concurrency][threads]") {
  const Environment quiet;
  const Shape shape = shape_to_share();
  const std::vector<float> expected =
      run(make_context(nullptr, "serial", 1), shape, Tensors(shape));
  for (const std::string& name : executors()) {
    CAPTURE(name);
    Context context = make_context(nullptr, name.c_str(), 2);
    const Plan plan = make_plan(context, desc_of(shape));
    context.reset();
    CHECK(run_gives(plan, shape, describe(plan).workspace_bytes, expected));
  }
}

TEST_CASE("the last of many plans, on whatever thread, takes the context along",
          "[concurrency][threads]") {
  const Environment quiet;
  CountingAllocator memory;  // not for threads itself: plans are made and destroyed in turn
  const heed_allocator allocator = memory.get();
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = "serial";
  options.allocator = &allocator;
  Context context = make_context(&options);
  std::vector<Plan> plans;
  for (int i = 0; i < 4; ++i) plans.push_back(make_plan(context, desc_of(Shape{})));
  context.reset();
  while (!plans.empty()) {
    CHECK(memory.live() > 0);
    std::thread([&] { plans.pop_back(); }).join();
  }
  CHECK(memory.live() == 0);
  CHECK(memory.sound());
}
