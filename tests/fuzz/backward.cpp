// Gradients of dense attention: heed_attention_backward_plan_create and _run.
#include "tests/fuzz/attention.hpp"

using namespace heed_test;

namespace {

/// Pointers that are as good a byte further, or none of a tensor's.
constexpr std::initializer_list<std::size_t> kKept = {
    offsetof(heed_attention_backward_args, attention),
    offsetof(heed_attention_backward_args, score_gradient)};

void run(Draw& draw, const heed_attention_backward_plan* plan, BackwardProblem& p) {
  draw_arrays(draw, kSmallGradients, p.forward);
  bool valid = !spoil(draw, p.forward);
  p.draw_tensors(draw);
  fill_normally(p.forward.out, draw.bits());
  Random random = draw.numbers();
  p.forward.lse->fill([&] { return 3 * random.normal(); });
  if (draw.one_in(6)) draw.plant({&*p.forward.lse, &p.forward.out, &p.grad_out});
  if (draw.one_in(16)) p.forward.lse.reset(), valid = false;
  // Before the run, which writes over what it adds to.
  ExpectedGradients want;
  valid ? void(want = p.expected()) : p.begin();
  check_run(draw, plan, p.args(), kKept, valid, p, want);
  if (p.forward.tiles) demand(!p.forward.tiles->wrong, "a score tile makes no sense");
}

void plan(Draw& draw, heed_attention_desc attention, heed_attention_backward_desc desc,
          bool damaged) {
  desc.attention = &attention;
  const bool inside = damaged && draw.one_in(2);
  if (inside) draw.damage(attention);
  if (damaged && !inside) draw.damage(desc, offsetof(heed_attention_backward_desc, grad_out));
  const Versioned<heed_attention_backward_desc> given(draw, desc);
  const heed_attention_backward_desc known = given.known();
  const BackwardPlan made = planned(damaged || given.odd(), given.get());
  if (!made) return;
  demand(known.attention != nullptr, "gradients of no attention are accepted");
  heed_attention_backward_desc laid = known;
  bool worth = small(LaidOutAttention(attention).all(false));
  worth = small(laid_out(laid).all()) && worth && little_work(attention);
  if (!worth || !worth_running(draw, damaged)) return;
  BackwardProblem problem(Problem::of(attention, draw.index(4)), known);
  run(draw, made.get(), problem);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const heed_attention_desc attention = draw_attention(first, kSmallGradients);
  const heed_attention_backward_desc desc = draw_backward(first, attention);
  each_variant(first, [&](Draw& draw, bool damaged) { plan(draw, attention, desc, damaged); });
  return 0;
}
