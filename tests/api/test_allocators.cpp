// A caller's allocator: used for everything, given everything back, and free to refuse.
#include "tests/api/refused_memory.hpp"
#include "tests/api/support.hpp"

using namespace api_test;

namespace {

heed_status create_context(const heed_context_options& options) {
  return make_and_destroy<heed_context>(
      [&](heed_context** context) { return heed_context_create(&options, context); },
      heed_context_destroy);
}

}  // namespace

TEST_CASE("a context that gets no memory is refused", "[allocator][threads]") {
  const Environment quiet;
  for (const std::string& name : executors()) {
    CAPTURE(name);
    CountingAllocator memory;
    const heed_allocator allocator = memory.get();
    heed_context_options options = serial_options(allocator);
    options.executor_name = name.c_str();
    refuse_each_request(memory, [&] { return create_context(options); });
  }
}

TEST_CASE("a context with a caller's executor that gets no memory is refused", "[allocator]") {
  const Environment quiet;
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_executor executor = in_order(2);
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor = &executor;
  options.allocator = &allocator;
  refuse_each_request(memory, [&] { return create_context(options); });
}

TEST_CASE("running out of memory is not the environment's fault", "[allocator]") {
  const Environment environment;
  environment.set("HEED_PARALLEL", "serial");
  environment.set("HEED_ISA", "scalar");
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  heed_context_options options = serial_options(allocator);
  options.executor_name = nullptr;
  refuse_each_request(memory, [&] { return create_context(options); });
}

TEST_CASE("a refused context gives its memory back", "[allocator]") {
  const Environment quiet;
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  heed_context_options options = serial_options(allocator);
  options.executor_name = "foo";
  CHECK(create_context(options) == HEED_STATUS_INVALID_ARGUMENT);
  heed_executor executor = in_order(2);
  executor.run = nullptr;
  options.executor_name = nullptr;
  options.executor = &executor;
  CHECK(create_context(options) == HEED_STATUS_INVALID_ARGUMENT);
  CHECK(memory.live() == 0);
  CHECK(memory.sound());
}

TEST_CASE("a plan that gets no memory is refused", "[allocator]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = serial_options(allocator);
  {
    const Context context = make_context(&options);
    const heed_attention_desc desc = desc_of(Shape{});
    refuse_each_request(memory, [&] {
      return make_and_destroy<heed_attention_plan>(
          [&](heed_attention_plan** plan) {
            return heed_attention_plan_create(context.get(), &desc, plan);
          },
          heed_attention_plan_destroy);
    });
  }
  CHECK(memory.live() == 0);
  CHECK(memory.sound());
}

TEST_CASE("the one call that gets no memory is refused", "[allocator]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = serial_options(allocator);
  {
    const Context context = make_context(&options);
    const heed_attention_desc desc = desc_of(Shape{});
    Tensors tensors{Shape{}};
    const heed_attention_args args = tensors.args();
    refuse_each_request(memory, [&] {
      const heed_status status = heed_attention(context.get(), &desc, &args);
      CHECK((status == HEED_STATUS_OK) == !tensors.out_untouched());
      return status;
    });
  }
  CHECK(memory.live() == 0);
}

TEST_CASE("the one call gives its workspace back after a refused run", "[allocator]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = serial_options(allocator);
  const Context context = make_context(&options);
  const std::size_t live = memory.live();
  const heed_attention_desc desc = desc_of(Shape{});
  Tensors tensors{Shape{}};
  heed_attention_args args = tensors.args();
  args.query = nullptr;
  CHECK(heed_attention(context.get(), &desc, &args) == HEED_STATUS_INVALID_ARGUMENT);
  CHECK(memory.live() == live);
  CHECK(memory.sound());
}

TEST_CASE("a run asks the allocator for nothing", "[allocator][threads]") {
  const Environment quiet;
  Shape shape;
  shape.batch = 4;
  shape.query_length = shape.key_length = 300;
  shape.features = shape.value_features = 32;
  for (const std::string& name : executors()) {
    CAPTURE(name);
    CountingAllocator memory;
    const heed_allocator allocator = memory.get();
    heed_context_options options = serial_options(allocator);
    options.executor_name = name.c_str();
    options.threads = 4;
    const Context context = make_context(&options);
    const Plan plan = make_plan(context, desc_of(shape));
    const Workspace workspace(describe(plan).workspace_bytes);
    Tensors tensors(shape);
    const heed_attention_args args = tensors.args();
    memory.restart();
    for (int i = 0; i < 3; ++i)
      CHECK(heed_attention_plan_run(plan.get(), &args, workspace.get(), workspace.bytes()) ==
            HEED_STATUS_OK);
    CHECK(memory.requests() == 0);
  }
}

TEST_CASE("a caller's allocator is copied", "[allocator]") {
  CountingAllocator memory;
  heed_allocator allocator = memory.get();
  const heed_context_options options = serial_options(allocator);
  Context context = make_context(&options);
  allocator.allocate = nullptr;
  allocator.release = nullptr;
  Plan plan = make_plan(context, desc_of(Shape{}));
  CHECK(memory.live() > 0);
  context.reset();
  CHECK(memory.live() > 0);  // the plan holds its context
  plan.reset();
  CHECK(memory.live() == 0);
  CHECK(memory.sound());
}
