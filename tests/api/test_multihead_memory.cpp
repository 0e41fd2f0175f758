// Where blocks and prepared matrices get their memory from, and that all of it goes back.
#include "tests/api/blocks.hpp"
#include "tests/api/refused_memory.hpp"

using namespace api_test;

TEST_CASE("a block's plan that gets no memory is refused", "[allocator][multihead]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = serial_options(allocator);
  {
    const Context context = make_context(&options);
    const BlockForm form;
    refuse_each_request(memory, [&] {
      return make_and_destroy<heed_multihead_plan>(
          [&](heed_multihead_plan** plan) {
            return heed_multihead_plan_create(context.get(), &form.desc, plan);
          },
          heed_multihead_plan_destroy);
    });
  }
  CHECK(memory.live() == 0);
  CHECK(memory.sound());
}

TEST_CASE("a block in one call that gets no memory is refused", "[allocator][multihead]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = serial_options(allocator);
  const Context context = make_context(&options);
  refuse_each_request(memory, [&] {
    const BlockForm form;
    const heed_status status = heed_multihead(context.get(), &form.desc, &form.args);
    CHECK((status == HEED_STATUS_OK) == !form.outputs_untouched());
    return status;
  });
  const std::size_t live = memory.live();
  BlockForm refused;
  refused.args.w_key = nullptr;
  CHECK(heed_multihead(context.get(), &refused.desc, &refused.args) ==
        HEED_STATUS_INVALID_ARGUMENT);
  CHECK(memory.live() == live);
}

TEST_CASE("a prepared matrix that gets no memory is refused", "[allocator][weights]") {
  CountingAllocator memory;
  const heed_allocator allocator = memory.get();
  const heed_context_options options = serial_options(allocator);
  {
    const Context context = make_context(&options);
    heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
    desc.in = 10;
    desc.out = 20;
    const std::vector<float> matrix = numbers(200, 1);
    refuse_each_request(memory, [&] {
      return make_and_destroy<heed_weights>(
          [&](heed_weights** weights) {
            return heed_weights_create(context.get(), &desc, matrix.data(), matrix.data(), weights);
          },
          heed_weights_destroy);
    });
    desc.in = desc.out = std::int64_t{1} << 27;  // too much for anyone
    desc.layout.stride_out = 1;
    const std::size_t live = memory.live();
    heed_weights* weights = untouched<heed_weights>();
    memory.restart(1);
    CHECK(heed_weights_create(context.get(), &desc, matrix.data(), nullptr, &weights) ==
          HEED_STATUS_OUT_OF_MEMORY);
    CHECK(memory.live() == live);
  }
  CHECK(memory.live() == 0);
  CHECK(memory.sound());
}

TEST_CASE("a block's run asks the allocator for nothing", "[allocator][threads][multihead]") {
  const Environment quiet;
  for (const std::string& name : executors()) {
    CAPTURE(name);
    CountingAllocator memory;
    const heed_allocator allocator = memory.get();
    heed_context_options options = serial_options(allocator);
    options.executor_name = name.c_str();
    options.threads = 4;
    const Context context = make_context(&options);
    const Weights weights = prepared(context, 9, 12);
    BlockForm form;
    form.args.w_value = form.args.b_value = nullptr;
    form.args.p_value = weights.get();
    const MultiheadPlan plan = make_plan(context, form.desc);
    const Workspace workspace(describe(plan).workspace_bytes);
    memory.restart();
    for (int i = 0; i < 3; ++i)
      CHECK(heed_multihead_plan_run(plan.get(), &form.args, workspace.get(), workspace.bytes()) ==
            HEED_STATUS_OK);
    CHECK(memory.requests() == 0);
  }
}
