// The projections that a run begins with, by themselves.
#include "tests/graph/problems.hpp"

using namespace heed_test;

namespace {

GraphProblem made_of_data(heed_graph_inputs inputs, const EdgeList& edges, Index width,
                          std::uint32_t dtype = HEED_DTYPE_DEFAULT) {
  heed_graph_attention_desc d = of_data(inputs, width, 3, 5, 7, all_of(dtype));
  d.data.stride_row = width;
  d.data.stride_feature = 1;
  GraphProblem p(edges, d);
  if (inputs == HEED_GRAPH_SHARED) p.add({kGraphBKey});
  add_edge_tensors(p, 2, dtype);
  p.add({kGraphLse});
  p.fill(9);
  return p;
}

/// Attention over projections has the bits of attention that makes them itself.
void check_projections(GraphProblem& p, const char* isa) {
  INFO(isa << ": " << line_of(p));
  const Context context = make_context(isa);
  const Graph graph = make_graph(context, p.edges);
  const Outputs want = p.run(context, graph);
  const Outputs got = p.run(context, [&](const heed_graph_attention_args& args) {
    const GraphPlan plan = make_plan(context, graph, p.desc);
    Workspace workspace(describe(plan).workspace_bytes);
    heed_graph_attention_args inputs = args;
    inputs.out = inputs.lse = nullptr;  // not looked at
    heed_graph_projections made = HEED_GRAPH_PROJECTIONS_INIT;
    require_ok(heed_graph_attention_plan_project(plan.get(), &inputs, workspace.get(),
                                                 workspace.bytes(), &made));
    CHECK(workspace.intact());
    heed_graph_attention_desc desc = p.desc;
    desc.inputs = HEED_GRAPH_PROJECTED;
    desc.query = made.query_layout;
    desc.key = made.key_layout;
    desc.value = made.value_layout;
    desc.data = {};
    desc.width = 0;
    desc.w_query = desc.w_key = desc.w_value = {};
    heed_graph_attention_args projected = args;
    projected.query = made.query;
    projected.key = made.key;
    projected.value = made.value;
    projected.data = projected.w_query = projected.w_key = projected.w_value = nullptr;
    projected.b_key = nullptr;
    require_ok(heed_graph_attention(context.get(), graph.get(), &desc, &projected));
  });
  CHECK(same_bits(got, want));
}

}  // namespace

TEST_CASE("attention over projections has the bits of attention that makes them") {
  for (const char* const isa : isa_names())
    for (const heed_graph_inputs inputs : {HEED_GRAPH_SHARED, HEED_GRAPH_PER_NODE})
      for (const Index width : {1, 7, 77, 197}) {
        GraphProblem p = made_of_data(inputs, random_edges(23, 60, 2), width);
        check_projections(p, isa);
        GraphProblem wide = made_of_data(inputs, random_edges(7, 20, 3), width, HEED_DTYPE_F64);
        check_projections(wide, isa);
      }
}

TEST_CASE("projections of no nodes, and of nodes without edges") {
  for (const heed_graph_inputs inputs : {HEED_GRAPH_SHARED, HEED_GRAPH_PER_NODE})
    for (const Index nodes : {0, 5}) {
      GraphProblem p = made_of_data(inputs, EdgeList{nodes, {}, {}, false}, 4);
      check_projections(p, isa_names().back());
    }
}

TEST_CASE("what projections refuse") {
  const Context context = make_context(isa_names().back());
  GraphProblem p = made_of_data(HEED_GRAPH_SHARED, random_edges(5, 9, 1), 4);
  const GraphPlan plan = make_plan(context, make_graph(context, p.edges), p.desc);
  Workspace workspace(describe(plan).workspace_bytes);
  heed_graph_attention_args args = p.args();
  heed_graph_projections made = HEED_GRAPH_PROJECTIONS_INIT;
  const auto refused = [&](const GraphPlan& of, heed_graph_projections* to, std::size_t bytes) {
    CHECK(heed_graph_attention_plan_project(of.get(), &args, workspace.get(), bytes, to) !=
          HEED_STATUS_OK);
    CHECK(made.query == nullptr);
    return std::string(heed_last_error());
  };
  CHECK(refused({}, &made, 0) == "plan is NULL");
  CHECK(refused(plan, nullptr, workspace.bytes()) == "projections is NULL");
  CHECK(refused(plan, &made, 1) ==
        "workspace_bytes is 1; this plan needs " + std::to_string(workspace.bytes()));
  CHECK(heed_graph_attention_plan_project(plan.get(), nullptr, workspace.get(), workspace.bytes(),
                                          &made) == HEED_STATUS_INVALID_ARGUMENT);
  CHECK(heed_last_error() == std::string("args is NULL"));
  args.w_value = nullptr;
  CHECK(refused(plan, &made, workspace.bytes()) ==
        "args.w_value and args.p_value are both NULL; give one of them");
  args = p.args();
  args.data = nullptr;
  CHECK(refused(plan, &made, workspace.bytes()) == "args.data is NULL; its tensor has elements");
  made.struct_size = 1;
  CHECK(refused(plan, &made, workspace.bytes()) ==
        "projections.struct_size is 1; initialise the struct with its _INIT macro");
  made = HEED_GRAPH_PROJECTIONS_INIT;
  GraphProblem given = projected_problem(p.edges, 2, 4, 4);
  args = given.args();
  const GraphPlan projected = make_plan(context, make_graph(context, given.edges), given.desc);
  CHECK(refused(projected, &made, workspace.bytes()) ==
        "desc.inputs of the plan is HEED_GRAPH_PROJECTED (0); there is nothing to project");
}
