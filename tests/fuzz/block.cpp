// Multi-head blocks: heed_multihead_plan_create and _run.
#include "tests/fuzz/block_case.hpp"
#include "tests/fuzz/check.hpp"
#include "tests/fuzz/plan.hpp"

using namespace heed_test;

namespace {

void run(Draw& draw, const heed_multihead_plan* plan, BlockCase& block) {
  block.make(draw);
  AttentionCase& attention = block.attention();
  heed_attention_args inner = inner_args(attention);
  const bool inner_damaged = draw.damage_pointers(inner, kBytewise);
  const Versioned<heed_attention_args> inner_given(draw, inner);
  heed_multihead_args args = block.args();
  args.attention = inner_given.get();
  const bool damaged = draw.damage_pointers(args, kBlockObjects) || inner_damaged;
  const Versioned<heed_multihead_args> given(draw, args);
  const RunSpace space(draw, plan);
  const heed_status status = heed_multihead_plan_run(plan, given.get(), space.get(), space.bytes());
  const bool odd = given.odd() || inner_given.odd();
  if (!ran(status, space, attention.valid() && !damaged && !odd)) {
    check_untouched(block.out());
    return attention.check_untouched();
  }
  const heed_multihead_args known = given.known();
  const heed_attention_args none = HEED_ATTENTION_ARGS_INIT;
  const heed_attention_args known_inner = known.attention == nullptr ? none : inner_given.known();
  const Expected want = expect(block.given(known, known_inner));
  check_equal("out", block.out(), want.out);
  attention.check_further(known_inner, want);
}

void plan(Draw& draw, heed_attention_desc attention, heed_multihead_desc desc, bool damaged) {
  if (damaged && draw.one_in(2)) draw.damage(attention);
  if (damaged) draw.damage(desc, offsetof(heed_multihead_desc, width_query));
  if (damaged && draw.one_in(16)) desc.combine = static_cast<std::uint32_t>(draw.hostile());
  const Versioned<heed_attention_desc> inner(draw, attention);
  desc.attention = inner.get();
  const Versioned<heed_multihead_desc> given(draw, desc);
  heed_multihead_plan* made = nullptr;
  const heed_status status = heed_multihead_plan_create(fuzz_context().get(), given.get(), &made);
  const MultiheadPlan owner(made);
  if (!planned(status, made, damaged || inner.odd() || given.odd(), {"desc."})) return;
  const heed_multihead_desc known = given.known();
  BlockCase block(known, inner_of(known, inner.known()));
  if (block.small() && worth_running(draw, damaged)) run(draw, made, block);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const heed_attention_desc attention = draw_attention(first, true);
  const heed_multihead_desc block = draw_block(first, attention);
  each_variant(first, [&](Draw& draw, bool damaged) { plan(draw, attention, block, damaged); });
  return 0;
}
