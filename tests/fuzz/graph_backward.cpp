// Gradients over graphs: heed_graph_attention_backward_plan_create and _run.
#include "tests/fuzz/graph_run.hpp"

using namespace heed_test;

namespace {

using Args = heed_graph_attention_backward_args;
using Desc = heed_graph_attention_backward_desc;

void run(Draw& draw, const heed_graph_attention_backward_plan* plan, GraphBackwardProblem& p) {
  p.draw_tensors(draw);
  // Before the run, which writes over what it adds to.
  const ExpectedGraphGradients want = p.expected();
  Args args = p.args();
  heed_graph_attention_args attention = *args.attention;
  args.attention = &attention;
  const bool attention_damaged = draw.damage_pointers(attention, kGraphObjects);
  const bool damaged = draw.damage_pointers(args, {offsetof(Args, attention)}) || attention_damaged;
  const Versioned<Args> given(draw, args);
  const RunSpace space(draw, plan);
  const heed_status status =
      heed_graph_attention_backward_plan_run(plan, given.get(), space.get(), space.bytes());
  const bool whole = !damaged && !given.odd();
  if (!ran(status, space, whole)) return check_gradients_untouched(p, p.accumulates());
  if (whole) check_gradients(p, want);
}

void plan(Draw& draw, const EdgeList& edges, const heed_graph* graph,
          heed_graph_attention_desc attention, Desc desc, bool damaged) {
  desc.attention = &attention;
  const bool inside = damaged && draw.one_in(2);
  if (inside) draw.damage(attention);
  if (damaged && !inside) draw.damage(desc, offsetof(Desc, grad_out));
  const Versioned<Desc> given(draw, desc);
  const Desc known = given.known();
  heed_graph_attention_backward_plan* made = nullptr;
  const heed_status status =
      heed_graph_attention_backward_plan_create(fuzz_context().get(), graph, given.get(), &made);
  const GraphBackwardPlan owner(made);
  if (!planned(status, made, damaged || given.odd(), {"desc."})) return;
  demand(known.attention != nullptr, "gradients of no attention are accepted");
  Desc laid = known;
  const bool worth = small(attention, edges) && small(laid_out(laid, edges).all());
  if (!worth || !worth_running(draw, damaged)) return;
  GraphProblem forward(edges, attention, draw.index(4));
  draw_numbers(draw, forward);
  GraphBackwardProblem problem(std::move(forward), known);
  run(draw, made, problem);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  EdgeList edges = draw_edges(first, Graphs::kSmall, true);
  const GraphForm form = draw_graph_form(first, edges, true);
  const Graph graph = make_graph(fuzz_context(), edges, form);
  heed_graph_attention_desc attention = draw_graph_attention(first, edges, Graphs::kSmall);
  attention.hard = 0;
  const Desc desc = draw_backward(first, attention, edges);
  each_variant(first, [&](Draw& draw, bool damaged) {
    plan(draw, edges, graph.get(), attention, desc, damaged);
  });
  return 0;
}
