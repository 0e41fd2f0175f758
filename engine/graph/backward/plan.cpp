#include "engine/graph/backward/plan.hpp"

#include <algorithm>

#include "engine/graph/gather.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

/// Padded, as kernels want them.
struct Widths {
  std::int64_t number;  ///< bytes of one
  Size heads, padded_heads, features, values, edge, width;
};

template <class Real>
Widths widths_of(const GraphProblem& p) {
  return {sizeof(Real),
          p.heads,
          round_up(p.heads, static_cast<std::int64_t>(kMaxPanel)),
          Gather<Real>::padded(p.features),
          Gather<Real>::padded(p.value_features),
          Gather<Real>::padded(p.edge_width),
          Gather<Real>::padded(p.width)};
}

std::size_t checked(const Offsets& rooms, const char* what, const GraphProblem& p) {
  return rooms.end(what, {{"desc.attention->heads", p.heads},
                          {"features", p.features},
                          {"value_features", p.value_features},
                          {"width", p.width},
                          {"edge_width", p.edge_width},
                          {"steps", p.steps}});
}

NodeSums lay_out_sums(const Widths& w) {
  NodeSums sums{};
  sums.values = (w.heads * w.features).value();
  sums.edge_keys = (Size(sums.values) + w.heads * w.values).value();
  sums.edge_values = (Size(sums.edge_keys) + w.heads * w.edge).value();
  sums.numbers = (Size(sums.edge_values) + w.heads * w.edge).value();
  return sums;
}

GraphBackwardSlab lay_out_slab(const GraphProblem& p, const Widths& w, const NodeSums& sums) {
  constexpr auto kEdges = static_cast<std::int64_t>(kBatch);
  constexpr auto kPanel = static_cast<std::int64_t>(kMaxPanel);
  Offsets rooms;
  const auto numbers = [&](Size count, Size each) { return rooms.take(count, each, w.number); };
  GraphBackwardSlab slab{};
  slab.grad = numbers(w.heads, w.values);
  slab.edge_grad = numbers(w.heads, w.edge);
  slab.lse = numbers(w.padded_heads, 1);
  slab.delta = numbers(w.padded_heads, 1);
  slab.gradients = numbers(kEdges, kPanel);
  slab.capped = numbers(kEdges, kPanel);
  slab.keys = numbers(kEdges * w.features, w.heads);
  slab.values = numbers(kEdges * w.values, w.heads);
  slab.sums = numbers(sums.numbers, 1);
  const std::int64_t widest =
      std::max({(w.heads * w.features).value(), (w.heads * w.values).value(), w.width.value(),
                w.edge.value(), w.padded_heads.value()});
  slab.rows = numbers(2, widest);
  slab.bytes = checked(rooms, "a thread's workspace", p);
  return slab;
}

GraphBackwardSpace lay_out_space(const heed_graph_attention_backward_plan& plan, const Widths& w) {
  const GraphProblem& p = plan.problem.attention;
  const EdgeOrder& outgoing = plan.graph->outgoing;
  Offsets rooms;
  rooms.take(static_cast<std::int64_t>(plan.attention.space.bytes), 1, 1);
  const auto nodes = [&](Size each, Size features) {
    return rooms.take(each * features, p.nodes, w.number);
  };
  GraphBackwardSpace space{};
  space.states = rooms.take(Size(p.steps - 1) * p.nodes, p.width, p.out.bytes);
  space.lse = nodes(2, w.heads);
  space.grad = nodes(p.combine == HEED_COMBINE_CONCAT ? Size(0) : w.heads, w.values);
  space.asked_keys = nodes(w.heads, w.edge);
  space.asked_values = nodes(w.heads, w.edge);
  space.edge_keys = nodes(w.heads, w.edge);
  space.edge_values = nodes(w.heads, w.edge);
  const bool weighted = p.combine == HEED_COMBINE_WEIGHTED;
  const auto parts = static_cast<std::int64_t>(plan.graph->parts.size());
  space.head_terms = rooms.take(weighted ? parts + 1 : 0, p.heads, sizeof(double));
  space.splits =
      rooms.take(std::max(plan.graph->splits, outgoing.splits), plan.sums.numbers, w.number);
  const bool made = p.inputs != HEED_GRAPH_PROJECTED;
  space.query = nodes(made ? 1 : 0, p.keys_width);
  space.key = nodes(made ? 1 : 0, p.keys_width);
  space.value = nodes(made ? 1 : 0, p.values_width);
  space.grad_data = nodes(p.steps > 1 ? 2 : 0, p.width);
  space.slab_bytes = plan.attention.slab.bytes + plan.slab.bytes;
  space.slabs = rooms.take(plan.attention.workers, static_cast<std::int64_t>(space.slab_bytes), 1);
  space.bytes = checked(rooms, "the workspace", p);
  return space;
}

/// One step of the forward run, whose results are what the next step reads.
GraphProblem one_step(GraphProblem p) {
  p.steps = 1;
  p.out.strides = {0, p.value_features, p.out_heads() * p.value_features, 1};
  return p;
}

}  // namespace

heed_graph_attention_backward_plan make_plan(const heed_context& context, const heed_graph& graph,
                                             const GraphBackwardProblem& problem) {
  const GraphProblem& p = problem.attention;
  if (p.inputs != HEED_GRAPH_PROJECTED)
    fail(HEED_STATUS_UNSUPPORTED,
         "desc.attention->inputs is %d; gradients of projected data are not supported yet",
         static_cast<int>(p.inputs));
  heed_graph_attention_backward_plan plan{};
  plan.context = &context;
  plan.graph = &graph;
  plan.problem = problem;
  plan.attention = make_plan(context, graph, one_step(p));
  const auto parts = static_cast<std::int64_t>(graph.parts.size());
  const auto outgoing = static_cast<std::int64_t>(graph.outgoing.parts.size());
  const std::int64_t claims =
      std::max<std::int64_t>(ceil_div(parts, plan.attention.parts_per_claim), 1);
  plan.outgoing_per_claim = std::max<std::int64_t>(outgoing / claims, 1);
  plan.gathered_bytes = 2 * plan.attention.gathered_bytes;
  const Widths widths =
      with_real(p.float64, [&](auto real) { return widths_of<decltype(real)>(p); });
  plan.sums = lay_out_sums(widths);
  plan.slab = lay_out_slab(p, widths, plan.sums);
  if (graph.nodes > 0) plan.space = lay_out_space(plan, widths);
  return plan;
}

}  // namespace heed
