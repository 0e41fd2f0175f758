// Dense attention: heed_attention_plan_create, _run and heed_attention.
#include "tests/fuzz/attention.hpp"

using namespace heed_test;

namespace {

void run(Draw& draw, const heed_attention_plan* plan, Problem& p) {
  draw_arrays(draw, kSmallForms, p);
  const bool spoilt = spoil(draw, p);
  heed_attention_args args = p.args();
  // Keys and values of a byte each are such fields, too.
  const bool bytes = is_scaled(p.desc.key.dtype) || is_scaled(p.desc.value.dtype);
  const bool damaged = !bytes && draw.damage_pointers(args, kBytewise);
  const Versioned<heed_attention_args> given(draw, args);
  if (!ran(draw, plan, given.get(), !spoilt && !damaged && !given.odd())) {
    check_untouched(p.out);
    return check_further_untouched(p);
  }
  const heed_attention_args known = given.known();
  const Expected want = expect(p.desc, known, model_of(p, known));
  check_equal("out", p.out, chosen(p.out.numbers(), want));
  check_further(p, known, want);
}

void plan(Draw& draw, heed_attention_desc desc, bool damaged) {
  if (damaged) draw.damage(desc);
  const Versioned<heed_attention_desc> given(draw, desc);
  const Plan made = planned(damaged || given.odd(), given.get());
  if (!made) return;
  heed_attention_desc known = given.known();
  const bool worth = small(LaidOutAttention(known).all(false)) && little_work(known);
  if (!worth || !worth_running(draw, damaged)) return;
  Problem problem = Problem::of(known, draw.index(4));
  run(draw, made.get(), problem);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const heed_attention_desc valid = draw_attention(first, kSmallForms);
  each_variant(first, [&](Draw& draw, bool damaged) { plan(draw, valid, damaged); });
  return 0;
}
