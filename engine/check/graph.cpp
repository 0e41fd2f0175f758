// The checks around a run over a graph.
#include "engine/check/attention.hpp"
#include "engine/check/matrices.hpp"
#include "engine/check/numbers.hpp"
#include "engine/check/overlap.hpp"
#include "engine/check/run.hpp"
#include "engine/runtime/tell.hpp"

namespace heed {
namespace {

/// Whether each row of out lies where its node's data lies, the one overlap that is allowed.
bool out_is_data(const GraphProblem& p, const heed_graph_attention_args& args) {
  const Strides& data = p.data.strides;
  const Strides& out = p.out.strides;
  return p.has_data() && args.data == args.out && p.data.type == p.out.type &&
         data.row == out.row && data.feature == out.feature &&
         (p.out_heads() == 1 || out.head == p.value_features * out.feature);
}

void add_inputs(const GraphProblem& p, const heed_graph_attention_args& args, Operands& all) {
  const auto nodes = [&](const char* field, const void* data, const Layout& layout,
                         std::int64_t heads, std::int64_t features, Role role = Role::kInput) {
    all.add(role, field, data, layout, {1, heads, p.nodes, features}, kNodeAxes);
  };
  nodes("query", args.query, p.query, p.heads, p.features);
  nodes("key", args.key, p.key, p.heads, p.features);
  nodes("value", args.value, p.value, p.heads, p.value_features);
  nodes("data", args.data, p.data, 1, p.width,
        out_is_data(p, args) ? Role::kReplaced : Role::kInput);
  const GivenWeights weights[] = {
      {"w_query", args.w_query, p.w_query, "b_query", args.b_query, p.bias},
      {"w_key", args.w_key, p.w_key, "b_key", args.b_key, p.bias},
      {"w_value", args.w_value, p.w_value, "b_value", args.b_value, p.bias}};
  for (const GivenWeights& given : weights) {
    if (p.inputs == HEED_GRAPH_PER_NODE) {
      add_node_weights(all, given, p.nodes);
    } else {
      add_weights(all, given);
    }
  }
  add_weights(all, {"w_edge_key", args.w_edge_key, p.w_edge_key, "", nullptr, p.bias});
  add_weights(all, {"w_edge_value", args.w_edge_value, p.w_edge_value, "", nullptr, p.bias});
  all.add(Role::kInput, "edge_data", args.edge_data, p.edge_data,
          {1, 1, p.edges_given, p.edge_width}, kEdgeAxes);
  if (args.head_weights != nullptr)
    all.add_vector("head_weights", args.head_weights, side_by_side(real_type(p.float64)), p.heads);
}

const Operand* add_out(const GraphProblem& p, const heed_graph_attention_args& args,
                       Operands& all) {
  return all.add(Role::kOutput, "out", args.out, p.out,
                 {1, p.out_heads(), p.nodes, p.value_features}, kNodeAxes);
}

}  // namespace

void check_before(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
                  const CheckedWorkspace& workspace) {
  const GraphProblem& p = plan.problem;
  const heed_context& context = *plan.context;
  validate(p, args, context.backend);
  if (p.nodes == 0 && args.out != nullptr)
    tell("check: the graph has 0 nodes, so nothing is computed");
  Operands all("args.");
  add_inputs(p, args, all);
  const Operand* const inputs_end = all.end();
  const Operand* const bias = all.add(Role::kInput, "edge_bias", args.edge_bias, p.edge_bias,
                                      {1, p.heads, p.edges_given, 1}, kEdgeAxes);
  add_out(p, args, all);
  all.add(Role::kOutput, "lse", args.lse, p.lse, {1, p.heads, p.nodes, 1}, kNodeAxes);
  all.add(Role::kOutput, "weights", args.weights, p.weights, {1, p.heads, p.edges_given, 1},
          kEdgeAxes);
  tell_odd_strides(all);
  refuse_overlaps(all, workspace.begin(), workspace.bytes());
  for (const Operand* x = all.begin(); x != inputs_end; ++x) tell_odd_numbers(context, x);
  tell_odd_numbers(context, bias, Numbers::MinusInfinity::kMeansMasked);
}

void check_after(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args) {
  Operands all("args.");
  tell_odd_numbers(*plan.context, add_out(plan.problem, args, all));
}

}  // namespace heed
