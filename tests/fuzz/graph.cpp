// Graphs and attention over them: heed_graph_create, heed_graph_attention_plan_create and _run.
#include "tests/fuzz/check.hpp"
#include "tests/fuzz/graph_case.hpp"
#include "tests/fuzz/plan.hpp"

using namespace heed_test;

namespace {

void run(Draw& draw, const heed_graph_attention_plan* plan, GraphCase& attention) {
  attention.make(draw, true);
  GraphProblem& problem = attention.problem();
  const bool in_place = attention.may_lie_in_place() && draw.one_in(2);
  heed_graph_attention_args args = attention.args(false);
  if (in_place) {
    problem.data->each([&](const Axes& at) { problem.out->set(at, problem.data->get(at)); });
    args.data = problem.out->data();
  }
  const bool damaged = draw.damage_pointers(args, kGraphObjects);
  const Versioned<heed_graph_attention_args> given(draw, args);
  const RunSpace space(draw, plan);
  const heed_status status =
      heed_graph_attention_plan_run(plan, given.get(), space.get(), space.bytes());
  if (!ran(status, space, !damaged && !given.odd())) return attention.check_untouched(in_place);
  const heed_graph_attention_args known = given.known();
  const heed_graph_attention_args plain = attention.given(known);
  const GraphExpected want = expect(GraphGiven{problem.desc, plain, problem.edges});
  check_equal("out", *problem.out, want.out);
  check_wanted("lse", problem.lse, known.lse, want.lse);
  check_wanted("weights", problem.weights, known.weights, want.weights);
}

void plan(Draw& draw, const EdgeList& edges, const heed_graph* graph,
          heed_graph_attention_desc desc, bool damaged) {
  if (damaged) draw.damage(desc);
  const Versioned<heed_graph_attention_desc> given(draw, desc);
  heed_graph_attention_plan* made = nullptr;
  const heed_status status =
      heed_graph_attention_plan_create(fuzz_context().get(), graph, given.get(), &made);
  const GraphPlan owner(made);
  if (!planned(status, made, damaged || given.odd(), {"desc."})) return;
  GraphCase attention(edges, given.known());
  if (attention.small() && worth_running(draw, damaged)) run(draw, made, attention);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Draw first(data, size);
  const EdgeList list = draw_edges(first);
  EdgeList edges = list;
  const Graph graph = draw_graph(first, edges, false);
  if (!graph) return 0;
  heed_graph_attention_desc valid = draw_graph_attention(first, edges);
  if (valid.combine != HEED_COMBINE_CONCAT && has_data(valid) && first.one_in(4))
    valid.data = valid.out;
  each_variant(first, [&](Draw& draw, bool damaged) {
    EdgeList others = list;
    if (damaged && draw.one_in(4)) return void(draw_graph(draw, others, true));
    plan(draw, edges, graph.get(), valid, damaged);
  });
  return 0;
}
