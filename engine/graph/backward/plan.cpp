#include "engine/graph/backward/plan.hpp"

#include <algorithm>

#include "engine/graph/gather.hpp"
#include "engine/projection/over_rows.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

std::size_t checked(const Offsets& offsets, const char* what, const GraphProblem& p) {
  return offsets.end(what, {{"desc.attention->heads", p.heads},
                            {"features", p.features},
                            {"value_features", p.value_features},
                            {"width", p.width},
                            {"edge_width", p.edge_width},
                            {"steps", p.steps}});
}

GraphBackwardSpace lay_out_space(const heed_graph_attention_backward_plan& plan,
                                 const GraphSizes& s) {
  const GraphProblem& p = plan.problem.attention;
  const EdgeOrder& outgoing = plan.graph->outgoing;
  Offsets offsets;
  offsets.take(static_cast<std::int64_t>(plan.attention.space.bytes), 1, 1);
  const auto nodes = [&](Size each, Size features) {
    return offsets.take(each * features, p.nodes, s.number);
  };
  GraphBackwardSpace space{};
  space.states = offsets.take(Size(p.steps - 1) * p.nodes, p.width, p.out.bytes);
  space.lse = nodes(2, s.heads);
  space.lse_rest = nodes(1, s.heads);
  space.grad = nodes(p.combine == HEED_COMBINE_CONCAT ? Size(0) : s.heads, s.value_features);
  for (std::size_t* const of_edges :
       {&space.asked_keys, &space.asked_values, &space.edge_keys, &space.edge_values})
    *of_edges = nodes(s.heads, s.edge_width);
  const std::int64_t weighted = p.combine == HEED_COMBINE_WEIGHTED ? p.heads : 0;
  const auto ranges = static_cast<std::int64_t>(plan.graph->ranges.size());
  space.head_terms = offsets.take(ranges, weighted, sizeof(double));
  space.head_sums = offsets.take(1, weighted, sizeof(double));
  const Size activated = s.activates ? s.heads * s.features : Size(0);
  const Size weights = s.score_weights * s.heads;
  space.score_terms = offsets.take(weights, ranges, s.number);
  space.edge_terms = offsets.take(activated * p.edge_width, ranges, s.number);
  space.score_sums = offsets.take(weights, 1, sizeof(double));
  space.splits =
      offsets.take(std::max(plan.graph->splits, outgoing.splits), plan.sums.numbers, s.number);
  const std::int64_t widths[] = {p.keys_width, p.keys_width, p.values_width};
  for (int i = 0; i < 3; ++i) {
    space.made[i] = nodes(p.is_projected() ? 0 : 1, widths[i]);
    space.w[i] = offsets.take(p.shares_matrices() ? p.width : 0, widths[i], s.number);
  }
  for (std::size_t& grad_data : space.grad_data)
    grad_data = nodes(p.is_projected() ? 0 : 1, p.width);
  space.w_edge_key = offsets.take(p.edge_width, p.keys_width, s.number);
  space.w_edge_value = offsets.take(p.edge_width, p.values_width, s.number);
  const GraphBackwardMatmuls& m = plan.matmuls;
  space.slab_bytes = std::max({plan.attention.slab.bytes + plan.slab.bytes, m.w_keys.slab.bytes,
                               m.w_values.slab.bytes, m.keys.slab.bytes, m.values.slab.bytes,
                               m.edge_keys.slab.bytes, m.edge_values.slab.bytes});
  space.slabs = offsets.take(plan.workers, static_cast<std::int64_t>(space.slab_bytes), 1);
  space.bytes = checked(offsets, "the workspace", p);
  return space;
}

/// One step of the forward run, whose results are what the next step reads.
GraphProblem one_step(GraphProblem p) {
  p.steps = 1;
  p.out.strides = {0, p.value_features, p.out_heads() * p.value_features, 1};
  return p;
}

void plan_products(heed_graph_attention_backward_plan& plan) {
  const GraphProblem& p = plan.problem.attention;
  const heed_context& context = *plan.context;
  const auto over_rows = [&](const char* field, std::int64_t in, std::int64_t out) {
    return plan_over_rows(context, field, {p.float64, p.nodes, in, out});
  };
  GraphBackwardMatmuls& m = plan.matmuls;
  if (p.edge_width > 0) {
    m.edge_keys = over_rows("desc.grad_w_edge_key", p.edge_width, p.features);
    m.edge_values = over_rows("desc.grad_w_edge_value", p.edge_width, p.value_features);
  }
  if (!p.shares_matrices()) return;
  m.w_keys = over_rows("desc.grad_w_query", p.width, p.keys_width);
  m.w_values = over_rows("desc.grad_w_value", p.width, p.values_width);
  const auto product = [&](const char* field, std::int64_t in) {
    return plan_matmul(context, field, {p.float64, p.nodes, in, p.width}, claims_for(context));
  };
  m.keys = product("desc.attention->w_query", p.keys_width);
  m.values = product("desc.attention->w_value", p.values_width);
}

}  // namespace

heed_graph_attention_backward_plan make_plan(const heed_context& context, const heed_graph& graph,
                                             const GraphBackwardProblem& problem) {
  const GraphProblem& p = problem.attention;
  heed_graph_attention_backward_plan plan{};
  plan.context = &context;
  plan.graph = &graph;
  plan.problem = problem;
  plan.attention = make_plan(context, graph, one_step(p));
  const auto ranges = static_cast<std::int64_t>(graph.ranges.size());
  const auto outgoing = static_cast<std::int64_t>(graph.outgoing.ranges.size());
  const std::int64_t claims =
      std::max<std::int64_t>(ceil_div(ranges, plan.attention.ranges_per_claim), 1);
  plan.outgoing_per_claim = std::max<std::int64_t>(outgoing / claims, 1);
  plan.gathered_bytes = 2 * plan.attention.gathered_bytes;
  plan.workers = std::max(plan.attention.workers, plan.attention.project_workers);
  plan_products(plan);
  const GraphSizes sizes = sizes_of(plan.attention);
  plan.sums = NodeSums{sizes};
  plan.slab = GraphBackwardSlab{{sizes, {}}};
  plan.slab.bytes = checked(plan.slab.offsets, "a thread's workspace", p);
  plan.space = lay_out_space(plan, sizes);
  return plan;
}

}  // namespace heed
