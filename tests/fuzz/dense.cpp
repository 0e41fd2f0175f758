// Dense attention: heed_attention_plan_create, _run and heed_attention.
#include "tests/fuzz/attention_case.hpp"
#include "tests/fuzz/check.hpp"
#include "tests/fuzz/plan.hpp"

using namespace heed_test;

namespace {

void run(Draw& draw, const heed_attention_plan* plan, AttentionCase& attention) {
  attention.make(draw);
  heed_attention_args args = attention.args();
  const bool damaged = draw.damage_pointers(args, kBytewise);
  Versioned<heed_attention_args> given(draw, args);
  const RunSpace space(draw, plan);
  const heed_status status = heed_attention_plan_run(plan, given.get(), space.get(), space.bytes());
  if (ran(status, space, attention.valid() && !damaged && !given.odd()))
    attention.check_outputs(given.known());
  else
    attention.check_untouched();
}

void plan(Draw& draw, heed_attention_desc desc, bool damaged) {
  if (damaged) draw.damage(desc);
  const Versioned<heed_attention_desc> given(draw, desc);
  heed_attention_plan* made = nullptr;
  const heed_status status = heed_attention_plan_create(fuzz_context().get(), given.get(), &made);
  const Plan owner(made);
  if (!planned(status, made, damaged || given.odd(), {"desc."})) return;
  AttentionCase attention(given.known(), true);
  if (attention.small() && worth_running(draw, damaged)) run(draw, made, attention);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  heed_attention_desc valid = draw_attention(first, false);
  draw_layouts(first, valid, first.one_in(4));
  each_variant(first, [&](Draw& draw, bool damaged) { plan(draw, valid, damaged); });
  return 0;
}
