// Plans of blocks: what they say of themselves, and how much memory they ask for.
#include "tests/multihead/checks.hpp"

using namespace heed_test;

namespace {

/// The workspace of self-attention of this length, without tensors to run it on.
std::size_t workspace_of(const Context& context, Index length, Index batch = 1,
                         std::uint32_t weights_point = HEED_WEIGHTS_NONE) {
  BlockChoice choice;
  choice.self = true;
  choice.width_query = choice.width_key = choice.width_out = 64;
  Block block = plain_block(1, 1, 4, 16, choice);
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
  // Past the lengths at which parts per thread and per task have their full size: probabilities of
  // a few rows are kept for weights up to 87381 keys.
  constexpr std::int64_t kLong = 131072;
  for (const std::uint32_t threads : {1U, 2U}) {
    if (threads > 1 && heed_executor_count() < 2) continue;
    const char* const executor = heed_executor_name(threads - 1);
    const Context context = make_context(isa_names().back(), {executor, threads});
    for (const std::uint32_t point : {HEED_WEIGHTS_NONE, HEED_WEIGHTS_PROBABILITIES}) {
      const std::size_t bytes = workspace_of(context, kLong, 1, point);
      const std::size_t twice = workspace_of(context, 2 * kLong, 1, point);
      const std::size_t four = workspace_of(context, 4 * kLong, 1, point);
      const std::size_t batched = workspace_of(context, kLong, 4, point);
      INFO(bytes << ", " << twice << ", " << four << ", batched " << batched);
      CHECK(four - twice <= (twice - bytes) * 9 / 4);
      CHECK(four <= batched * 9 / 8);
      // Q, K, V and the heads are 4 x 64 numbers of 4 bytes per token; twice that, and 4 MiB per
      // thread, are plenty. The scores of one head would be 1 TiB.
      CHECK(four <= std::size_t{4 * kLong} * (2 * 4 * 64 * 4) + threads * (std::size_t{4} << 20));
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
