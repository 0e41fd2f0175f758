// Gradients over graphs: heed_graph_attention_backward_plan_create and _run.
#include "tests/fuzz/attention.hpp"

using namespace heed_test;

namespace {

using Desc = heed_graph_attention_backward_desc;

void run(Draw& draw, const heed_graph_attention_backward_plan* plan, GraphBackwardProblem& p) {
  p.draw_tensors(draw);
  // Before the run, which writes over what it adds to.
  const ExpectedGraphGradients want = p.expected();
  heed_graph_attention_backward_args args = p.args();
  heed_graph_attention_args attention = *args.attention;
  args.attention = &attention;
  const bool damaged = draw.damage_pointers(attention, kGraphObjects);
  check_run(draw, plan, args, {offsetof(heed_graph_attention_backward_args, attention)}, !damaged,
            p, want);
}

void plan(Draw& draw, const EdgeList& edges, const heed_graph* graph,
          heed_graph_attention_desc attention, Desc desc, bool damaged) {
  desc.attention = &attention;
  const bool inside = damaged && draw.one_in(2);
  if (inside) draw.damage(attention);
  if (damaged && !inside) draw.damage(desc, offsetof(Desc, grad_out));
  const Versioned<Desc> given(draw, desc);
  const Desc known = given.known();
  const auto made = planned(damaged || given.odd(), graph, given.get());
  if (!made) return;
  demand(known.attention != nullptr, "gradients of no attention are accepted");
  Desc laid = known;
  const bool worth = small(attention, edges) && small(laid_out(laid, edges).all());
  if (!worth || !worth_running(draw, damaged)) return;
  GraphProblem forward(edges, attention, draw.index(4));
  draw_numbers(draw, forward);
  GraphBackwardProblem problem(std::move(forward), known);
  run(draw, made.get(), problem);
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
