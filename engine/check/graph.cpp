#include "engine/check/graph.hpp"

#include "engine/check/attention.hpp"
#include "engine/check/matrices.hpp"
#include "engine/check/numbers.hpp"
#include "engine/check/overlap.hpp"
#include "engine/runtime/tell.hpp"

namespace heed {
namespace {

/// Whether each row of out lies where the data of its node does: the one overlap that is allowed.
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
    all.add_vector(
        "head_weights", args.head_weights,
        p.float64 ? side_by_side(ElementType::kF64, 8) : side_by_side(ElementType::kF32, 4),
        p.heads);
}

const Operand* add_out(const GraphProblem& p, const heed_graph_attention_args& args,
                       Operands& all) {
  return all.add(Role::kOutput, "out", args.out, p.out,
                 {1, p.out_heads(), p.nodes, p.value_features}, kNodeAxes);
}

/// Whether every second number is 0, and not all are.
bool every_second_is_0(const void* given, std::int64_t count) {
  const auto* const numbers = static_cast<const std::int32_t*>(given);
  bool some = false;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % 2 == 1 && numbers[i] != 0) return false;
    some = some || numbers[i] != 0;
  }
  return some;
}

/// Edges from 0 to 0 at every second place that leave no doubt that they are halves.
constexpr std::int64_t kBeyondDoubt = 16;

}  // namespace

void check_given_edges(const heed_graph_desc& desc) {
  if (desc.edges == 0 && desc.sources != nullptr)
    tell("check: desc.edges is 0, so the graph has none, although desc.sources is given");
  if (desc.index_type == HEED_INDEX_I64 || desc.edges < 4) return;
  const char* const rule =
      "int64 numbers read as int32 look like this; desc.index_type must be HEED_INDEX_I64 (2) for "
      "them";
  if (desc.offsets != nullptr) {
    if (desc.nodes > 1 && every_second_is_0(desc.offsets, desc.nodes + 1))
      tell("check: every second number of desc.offsets is 0; %s", rule);
    return;
  }
  if (!every_second_is_0(desc.sources, desc.edges) ||
      !every_second_is_0(desc.destinations, desc.edges))
    return;
  if (desc.index_type == HEED_INDEX_DEFAULT && desc.edges / 2 >= kBeyondDoubt)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.index_type is 0, and every second of desc.sources and desc.destinations, %lld of "
         "%lld, is 0; %s, and HEED_INDEX_I32 (1) if they are int32 nevertheless",
         static_cast<long long>(desc.edges / 2), static_cast<long long>(desc.edges), rule);
  tell("check: every second of desc.sources and desc.destinations is 0; %s", rule);
}

void check_before(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
                  const CheckedWorkspace& workspace) {
  const GraphProblem& p = plan.problem;
  const heed_context& context = *plan.context;
  validate(p, args, context.product);
  if (p.nodes == 0 && args.out != nullptr)
    tell("check: the graph has 0 nodes, so nothing is computed");
  Operands inputs("args.");
  add_inputs(p, args, inputs);
  Operands all = inputs;
  const Operand* const bias = all.add(Role::kInput, "edge_bias", args.edge_bias, p.edge_bias,
                                      {1, p.heads, p.edges_given, 1}, kEdgeAxes);
  add_out(p, args, all);
  all.add(Role::kOutput, "lse", args.lse, p.lse, {1, p.heads, p.nodes, 1}, kNodeAxes);
  all.add(Role::kOutput, "weights", args.weights, p.weights, {1, p.heads, p.edges_given, 1},
          kEdgeAxes);
  tell_odd_strides(all);
  refuse_overlaps(all, workspace.begin(), workspace.bytes());
  for (const Operand& operand : inputs) tell_odd_numbers(context, &operand);
  tell_odd_numbers(context, bias, Numbers::MinusInfinity::kMeansMasked);
}

void check_after(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args) {
  Operands all("args.");
  tell_odd_numbers(*plan.context, add_out(plan.problem, args, all));
}

}  // namespace heed
