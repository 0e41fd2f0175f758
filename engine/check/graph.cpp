// The checks around a run over a graph.
#include "engine/check/attention.hpp"
#include "engine/check/matrices.hpp"
#include "engine/check/numbers.hpp"
#include "engine/check/overlap.hpp"
#include "engine/check/run.hpp"

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
                         const Shape& sizes, Role role = Role::kInput) {
    all.add(role, field, data, layout, sizes, kNodeAxes);
  };
  nodes("query", args.query, p.query, {1, p.heads, p.nodes, p.features});
  nodes("key", args.key, p.key, {1, p.heads, p.sources, p.features});
  nodes("value", args.value, p.value, {1, p.heads, p.sources, p.value_features});
  nodes("data", args.data, p.data, {1, 1, p.nodes, p.width},
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

/// Adds the gradients that a run writes.
void add_gradients(const GraphBackwardProblem& p, const heed_graph_attention_backward_args& args,
                   Operands& all) {
  const GraphProblem& of = p.attention;
  const auto add = [&](const char* field, void* data, const Layout& layout, const Shape& sizes,
                       AxisNames& axes) {
    all.add(Role::kOutput, field, data, layout, sizes, axes);
  };
  const Shape keys = {1, of.heads, of.nodes, of.features};
  const Shape values = {1, of.heads, of.nodes, of.value_features};
  add("grad_query", args.grad_query, p.grad_query, keys, kNodeAxes);
  add("grad_key", args.grad_key, p.grad_key, keys, kNodeAxes);
  add("grad_value", args.grad_value, p.grad_value, values, kNodeAxes);
  add("grad_data", args.grad_data, p.grad_data, {1, 1, of.nodes, of.width}, kNodeAxes);
  const auto matrix = [&](const char* field, void* data, const Matrix& m, bool per_node) {
    add(field, data, m.layout, {per_node ? of.nodes : 1, 1, m.in, m.out}, kMatrixAxes);
  };
  const bool per_node = of.inputs == HEED_GRAPH_PER_NODE;
  matrix("grad_w_query", args.grad_w_query, p.grad_w_query, per_node);
  matrix("grad_w_key", args.grad_w_key, p.grad_w_key, per_node);
  matrix("grad_w_value", args.grad_w_value, p.grad_w_value, per_node);
  matrix("grad_w_edge_key", args.grad_w_edge_key, p.grad_w_edge_key, false);
  matrix("grad_w_edge_value", args.grad_w_edge_value, p.grad_w_edge_value, false);
  const Layout real = side_by_side(real_type(of.float64));
  const auto vector = [&](const char* field, void* data, std::int64_t count) {
    add(field, data, real, {1, 1, 1, count}, kVectorAxes);
  };
  vector("grad_b_query", args.grad_b_query, of.keys_width);
  vector("grad_b_key", args.grad_b_key, of.keys_width);
  vector("grad_b_value", args.grad_b_value, of.values_width);
  vector("grad_head_weights", args.grad_head_weights, of.heads);
  add("grad_edge_data", args.grad_edge_data, p.grad_edge_data,
      {1, 1, of.edges_given, of.edge_width}, kEdgeAxes);
  add("grad_edge_bias", args.grad_edge_bias, p.grad_edge_bias,
      {1, p.sums_bias ? 1 : of.heads, of.edges_given, 1}, kEdgeAxes);
}

const Operand* add_bias(const GraphProblem& p, const heed_graph_attention_args& args,
                        Operands& all) {
  return all.add(Role::kInput, "edge_bias", args.edge_bias, p.edge_bias,
                 {1, p.heads, p.edges_given, 1}, kEdgeAxes);
}

}  // namespace

void check_before(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
                  const CheckedWorkspace& workspace) {
  const GraphProblem& p = plan.problem;
  const heed_context& context = *plan.context;
  validate(p, args, context.backend);
  Operands all("args.");
  add_inputs(p, args, all);
  const Operand* const inputs_end = all.end();
  const Operand* const bias = add_bias(p, args, all);
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

void check_before(const heed_graph_attention_backward_plan& plan,
                  const heed_graph_attention_backward_args& given,
                  const CheckedWorkspace& workspace) {
  const GraphBackwardArgs args(given);
  const GraphBackwardProblem& problem = plan.problem;
  const GraphProblem& p = problem.attention;
  validate(problem, args, plan.context->backend);
  Operands all("args.attention->");
  add_inputs(p, args.attention, all);
  const Operand* const inputs_end = all.end();
  const Operand* const bias = add_bias(p, args.attention, all);
  all.rename("args.");
  const Operand* const grads = all.end();
  all.add(Role::kInput, "grad_out", given.grad_out, problem.grad_out,
          {1, p.out_heads(), p.nodes, p.value_features}, kNodeAxes);
  all.add(Role::kInput, "grad_lse", given.grad_lse, problem.grad_lse, {1, p.heads, p.nodes, 1},
          kNodeAxes);
  const Operand* const grads_end = all.end();
  add_gradients(problem, given, all);
  tell_odd_strides(all);
  refuse_overlaps(all, workspace.begin(), workspace.bytes());
  for (const Operand* x = all.begin(); x != inputs_end; ++x) tell_odd_numbers(*plan.context, x);
  for (const Operand* x = grads; x != grads_end; ++x) tell_odd_numbers(*plan.context, x);
  tell_odd_numbers(*plan.context, bias, Numbers::MinusInfinity::kMeansMasked);
}

void check_after(const heed_graph_attention_backward_plan& plan,
                 const heed_graph_attention_backward_args& given) {
  Operands all("args.");
  add_gradients(plan.problem, given, all);
  for (const Operand& gradient : all) tell_odd_numbers(*plan.context, &gradient);
}

}  // namespace heed
