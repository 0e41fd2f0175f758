// Plans of blocks: what they say of themselves, how much memory they ask for, and how long they and
// prepared matrices live.
#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/multihead/checks.hpp"

using namespace heed_test;

namespace {

Block self_block(Index length, Index batch = 1, std::uint32_t dtype = HEED_DTYPE_F32) {
  BlockChoice choice = choice_of(dtype);
  choice.self = true;
  choice.width_query = choice.width_key = choice.width_out = 64;
  return plain_block(length, length, 4, 16, choice, batch);
}

/// The workspace of self-attention of this length, without tensors to run it on.
std::size_t workspace_of(const Context& context, Index length, Index batch = 1,
                         std::uint32_t weights_point = HEED_WEIGHTS_NONE) {
  Block block = self_block(1);
  heed_multihead_desc desc = block.desc();
  heed_attention_desc attention = *desc.attention;
  attention.batch = batch;
  attention.query_length = attention.key_length = length;
  attention.weights_point = weights_point;
  desc.attention = &attention;
  return describe(make_plan(context, desc)).workspace_bytes;
}

}  // namespace

TEST_CASE("the workspace grows with tokens, not with pairs of them", "[plan]") {
  for (const std::uint32_t threads : {1U, 2U}) {
    if (threads > 1 && heed_executor_count() < 2) continue;
    const char* const executor = heed_executor_name(threads - 1);
    const Context context = make_context(isa_names().back(), {executor, threads});
    for (const std::uint32_t point : {HEED_WEIGHTS_NONE, HEED_WEIGHTS_PROBABILITIES}) {
      // Past the lengths at which parts per thread and per task have their full size.
      const std::size_t bytes = workspace_of(context, 4096, 1, point);
      const std::size_t twice = workspace_of(context, 8192, 1, point);
      const std::size_t four = workspace_of(context, 16384, 1, point);
      const std::size_t batched = workspace_of(context, 4096, 4, point);
      INFO(bytes << ", " << twice << ", " << four << ", batched " << batched);
      CHECK(four - twice <= (twice - bytes) * 9 / 4);
      CHECK(four <= batched * 9 / 8);
      // Q, K, V and the heads are 4 x 64 numbers of 4 bytes per token; twice that, and 4 MiB per
      // thread, are plenty. The scores of one head would be 1 GiB.
      CHECK(four <= 16384 * std::size_t{2 * 4 * 64 * 4} + threads * (std::size_t{4} << 20));
    }
  }
}

TEST_CASE("a plan describes itself", "[plan]") {
  REQUIRE(heed_product_count() > 0);
  for (const char* const isa : isa_names()) {
    const Context context = make_context(isa);
    BlockChoice choice;
    choice.width_query = 20;
    choice.width_key = 18;
    choice.width_out = 10;
    for (const std::uint32_t combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_MEAN}) {
      choice.combine = combine;
      Block block = plain_block(21, 26, 4, 7, choice, 2, 2, 9);
      const MultiheadPlan plan = make_plan(context, block.desc());
      const heed_multihead_info info = describe(plan);
      CHECK(std::string(info.isa) == isa);
      CHECK(std::string(info.executor) == "serial");
      CHECK(std::string(info.product) == heed_product_name(0));
      CHECK(info.threads == 1);
      std::size_t bytes = 0;
      require_ok(heed_multihead_plan_workspace(plan.get(), &bytes));
      CHECK(bytes == info.workspace_bytes);
      const double products = 2.0 * 42 * 20 * 28 + 2.0 * 52 * 18 * (14 + 18);
      const double last = combine == HEED_COMBINE_CONCAT ? 2.0 * 42 * 36 * 10 : 0;
      CHECK(info.projection_flops == products + last);
      const Plan dense = make_plan(context, block.attention.desc);
      CHECK(info.attention_flops == describe(dense).flops);
    }
  }
}

TEST_CASE("a plan may run often, and in one call", "[plan]") {
  for (const char* const isa : isa_names()) {
    const Context context = make_context(isa);
    Block block = self_block(40, 2);
    block.fill(61);
    const Outputs want = block.run_all(context);
    const heed_multihead_desc desc = block.desc();
    const heed_multihead_args args = block.args();
    const MultiheadPlan plan = make_plan(context, desc);
    Workspace workspace(describe(plan).workspace_bytes);
    for (int i = 0; i < 3; ++i) {
      block.out.clear();
      require_ok(heed_multihead_plan_run(plan.get(), &args, workspace.get(), workspace.bytes()));
      check_same(isa, block.out.numbers(), want.out);
    }
    block.out.clear();
    require_ok(heed_multihead(context.get(), &desc, &args));
    check_same(isa, block.out.numbers(), want.out);
  }
}

TEST_CASE("a plan needs nothing of its descriptor afterwards", "[plan]") {
  const Context context = make_context(isa_names().back());
  Block block = self_block(17);
  block.fill(62);
  const Outputs want = block.run_all(context);
  MultiheadPlan plan;
  {
    heed_multihead_desc desc = block.desc();
    const auto attention = std::make_unique<heed_attention_desc>(*desc.attention);
    desc.attention = attention.get();
    plan = make_plan(context, desc);
    std::memset(attention.get(), 0xff, sizeof *attention);
  }
  const heed_multihead_args args = block.args();
  Workspace workspace(describe(plan).workspace_bytes);
  block.out.clear();
  require_ok(heed_multihead_plan_run(plan.get(), &args, workspace.get(), workspace.bytes()));
  check_same("run", block.out.numbers(), want.out);
}

TEST_CASE("prepared matrices need nothing of the numbers that they were made from", "[plan]") {
  for (const char* const isa : isa_names()) {
    const Context context = make_context(isa);
    Block block = self_block(17);
    block.fill(63);
    const Outputs want = block.run_all(context);
    WeightMatrix& w = block.w_value;
    w.prepared = true;
    const Weights prepared = w.prepare(context);
    w.tensor.clear();
    w.bias->clear();
    const heed_multihead_desc desc = block.desc();
    heed_multihead_args args = block.args();
    args.p_value = prepared.get();
    block.out.clear();
    require_ok(heed_multihead(context.get(), &desc, &args));
    check_same(isa, block.out.numbers(), want.out);
  }
}

TEST_CASE("contexts, plans and prepared matrices go in any order", "[plan]") {
  // 0 the context, 1 the plan, 2 the matrix: what is left still works.
  Block block = self_block(9);
  block.fill(64);
  block.w_query.prepared = true;
  const Outputs want = block.run_all(isa_names().back());
  int order[] = {0, 1, 2};
  do {
    Context context = make_context(isa_names().back());
    MultiheadPlan plan = make_plan(context, block.desc());
    Weights weights = block.w_query.prepare(context);
    for (const int next : order) {
      if (plan && weights) {
        heed_multihead_args args = block.args();
        args.p_query = weights.get();
        Workspace workspace(describe(plan).workspace_bytes);
        block.out.clear();
        require_ok(heed_multihead_plan_run(plan.get(), &args, workspace.get(), workspace.bytes()));
        check_same("run", block.out.numbers(), want.out);
      }
      if (weights) {
        heed_weights_info info = HEED_WEIGHTS_INFO_INIT;
        require_ok(heed_weights_describe(weights.get(), &info));
        CHECK(info.in == 64);
      }
      if (next == 0) context.reset();
      if (next == 1) plan.reset();
      if (next == 2) weights.reset();
    }
  } while (std::next_permutation(order, order + 3));
}
