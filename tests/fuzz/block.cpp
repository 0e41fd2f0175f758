// Multi-head blocks: heed_multihead_plan_create and _run.
#include "tests/fuzz/attention.hpp"

using namespace heed_test;

namespace {

void run(Draw& draw, const heed_multihead_plan* plan, Block& block) {
  Problem& attention = block.attention;
  draw_arrays(draw, kSmallBlocks, attention);
  const bool spoilt = spoil(draw, attention);
  draw_arrays(draw, block);
  const Block::Prepared prepared = block.prepare(fuzz_context());
  heed_multihead_args args = block.args(prepared);
  heed_attention_args inner = *args.attention;
  const bool inner_damaged = draw.damage_pointers(inner, kBytewise);
  const Versioned<heed_attention_args> inner_given(draw, inner);
  args.attention = inner_given.get();
  const bool damaged = draw.damage_pointers(args, kBlockObjects) || inner_damaged;
  const Versioned<heed_multihead_args> given(draw, args);
  const bool odd = given.odd() || inner_given.odd();
  if (!ran(draw, plan, given.get(), !spoilt && !damaged && !odd)) {
    check_untouched(block.out);
    return check_further_untouched(attention);
  }
  const heed_multihead_args known = given.known();
  const heed_attention_args none = HEED_ATTENTION_ARGS_INIT;
  const heed_attention_args known_inner = known.attention == nullptr ? none : inner_given.known();
  const Expected want = expect(block.given(known, known_inner));
  check_equal("out", block.out, want.out);
  check_further(attention, known_inner, want);
}

void plan(Draw& draw, heed_attention_desc attention, heed_multihead_desc desc, bool damaged) {
  if (damaged && draw.one_in(2)) draw.damage(attention);
  if (damaged) draw.damage(desc, offsetof(heed_multihead_desc, width_query));
  if (damaged && draw.one_in(16)) desc.combine = static_cast<std::uint32_t>(draw.hostile());
  const Versioned<heed_attention_desc> inner(draw, attention);
  desc.attention = inner.get();
  const Versioned<heed_multihead_desc> given(draw, desc);
  const MultiheadPlan made = planned(damaged || inner.odd() || given.odd(), given.get());
  if (!made) return;
  heed_multihead_desc known = given.known();
  if (std::optional<Block> block = small_block(draw, known, inner.known()))
    if (worth_running(draw, damaged)) run(draw, made.get(), *block);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  heed_attention_desc attention = draw_attention(first, kSmallBlocks);
  const heed_multihead_desc block = draw_block_desc(first, attention, Lengths::kSmall);
  attention.query = HEED_LAYOUT_INIT;  // which says whether all is float64, and the block does now
  each_variant(first, [&](Draw& draw, bool damaged) { plan(draw, attention, block, damaged); });
  return 0;
}
