#include "engine/graph/plan.hpp"

#include <algorithm>

#include "engine/graph/gather.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

/// Handing out a claim of less work than this costs more than it saves (some 20 us).
constexpr double kBytesPerClaim = 2e5;

/// So many claims per thread even out their different lengths, and threads that come late.
constexpr std::int64_t kClaimsPerThread = 64;

std::size_t checked(const Offsets& rooms, const char* what, const GraphProblem& p) {
  return rooms.end(what, {{"desc.heads", p.heads},
                          {"desc.features", p.features},
                          {"desc.value_features", p.value_features},
                          {"desc.width", p.width},
                          {"desc.edge_width", p.edge_width}});
}

NodeSlab lay_out_slab(const heed_graph_attention_plan& plan, const GraphSizes& s) {
  const GraphProblem& p = plan.problem;
  constexpr auto kEdges = static_cast<std::int64_t>(kBatch);
  constexpr auto kPanel = static_cast<std::int64_t>(kMaxPanel);
  Offsets rooms;
  const auto numbers = [&](Size count, Size each) { return rooms.take(count, each, s.number); };
  NodeSlab slab{};
  slab.query = numbers(s.heads, s.features);
  slab.edge_query = numbers(s.heads, s.edge_width);
  const auto copied = [&](const Layout& layout, std::int64_t features, Size padded) {
    const bool in_place = with_real(
        p.float64, [&](auto real) { return Gather<decltype(real)>::in_place(layout, features); });
    return numbers(in_place ? 0 : kEdges * padded, s.heads);
  };
  slab.keys = copied(plan.key, p.features, s.features);
  slab.values = copied(plan.value, p.value_features, s.value_features);
  slab.edge_data = numbers(kEdges, s.edge_width);
  const std::int64_t widest =
      std::max({s.features.value(), s.value_features.value(), s.edge_width.value()});
  slab.isolated = numbers(kEdges * widest, s.heads);
  slab.bias = numbers(kPanel, kEdges);
  slab.scores = numbers(kEdges, kPanel);
  slab.products = numbers(s.edge_width, kPanel);
  slab.row_max = numbers(s.padded_heads, 1);
  slab.row_sum = numbers(s.padded_heads, 1);
  slab.factors = numbers(s.padded_heads, 1);
  slab.chosen = rooms.take(p.hard ? s.padded_heads : 0, 1, sizeof(std::int64_t));
  slab.sums = numbers(s.heads, s.value_features);
  slab.edge_sums = numbers(s.heads, s.edge_width);
  slab.row = numbers(s.heads, s.value_features);
  slab.data = numbers(s.width, 1);
  const bool per_node = p.inputs == HEED_GRAPH_PER_NODE;
  const Size out = s.heads * std::max(s.features.value(), s.value_features.value());
  slab.matrix = numbers(per_node ? kEdges : 0, std::max(s.width.value(), out.value()));
  slab.projected = numbers(per_node ? std::max(s.width.value(), out.value()) : 0, 1);
  slab.bytes = checked(rooms, "a thread's workspace", p);
  return slab;
}

SplitSlab lay_out_split(const GraphProblem& p, const GraphSizes& s) {
  Offsets rooms;
  SplitSlab split{};
  split.row_max = rooms.take(s.heads, 1, s.number);
  split.row_sum = rooms.take(s.heads, 1, s.number);
  split.lse = rooms.take(s.heads, 1, sizeof(double));
  split.chosen = rooms.take(p.hard ? s.heads : 0, 1, sizeof(std::int64_t));
  split.sums = rooms.take(s.heads, s.value_features, s.number);
  split.edge_sums = rooms.take(s.heads, s.edge_width, s.number);
  split.bytes = checked(rooms, "what a part of a node leaves", p);
  return split;
}

GraphSpace lay_out_space(const heed_graph_attention_plan& plan, const GraphSizes& s) {
  const GraphProblem& p = plan.problem;
  const std::int64_t splits = plan.graph->splits;
  Offsets rooms;
  GraphSpace space{};
  space.splits = rooms.take(splits, static_cast<std::int64_t>(plan.split.bytes), 1);
  space.w_edge_key = rooms.take(s.features * p.edge_width, s.heads, s.number);
  space.w_edge_value = rooms.take(s.value_features * p.edge_width, s.heads, s.number);
  space.data = rooms.take(p.copies_data() ? p.nodes : 0, p.width, s.number);
  if (p.inputs != HEED_GRAPH_PROJECTED) {
    space.query = rooms.take(p.nodes, plan.query.strides.row, s.number);
    space.key_value = rooms.take(p.nodes, plan.key.strides.row, s.number);
  }
  const GraphMatmuls& matmuls = plan.matmuls;
  space.slab_bytes = std::max({plan.slab.bytes, matmuls.query.slab.bytes, matmuls.key.slab.bytes,
                               matmuls.value.slab.bytes});
  space.slabs = rooms.take(std::max(plan.workers, plan.project_workers),
                           static_cast<std::int64_t>(space.slab_bytes), 1);
  space.bytes = checked(rooms, "the workspace", p);
  return space;
}

/// Where projections lie: keys and values of a node side by side, rows at the beginning of a line.
void place_projections(heed_graph_attention_plan& plan) {
  const GraphProblem& p = plan.problem;
  const std::int64_t number = real_bytes(p.float64);
  const std::int64_t line = HEED_WORKSPACE_ALIGNMENT / number;
  const auto rows = [&](std::int64_t features, Size row) {
    return Layout{real_type(p.float64), number, {0, features, round_up(row, line).value(), 1}};
  };
  const Size both = Size(p.keys_width) + p.values_width;
  plan.query = rows(p.features, p.keys_width);
  plan.key = rows(p.features, both);
  plan.value = rows(p.value_features, both);
}

/// So many elements of matrices times nodes are worth a thread.
constexpr double kNumbersPerThread = 1 << 15;

void plan_projections(heed_graph_attention_plan& plan) {
  const GraphProblem& p = plan.problem;
  const std::uint32_t threads = plan.context->threads.count;
  const double outs = 2 * static_cast<double>(p.keys_width) + static_cast<double>(p.values_width);
  const double numbers = static_cast<double>(p.nodes) * static_cast<double>(p.width) * outs;
  plan.project_workers =
      static_cast<std::uint32_t>(std::clamp<double>(numbers / kNumbersPerThread, 1, threads));
  if (p.inputs == HEED_GRAPH_PER_NODE) return;
  const std::int64_t claims = threads == 1 ? 1 : std::int64_t{2} * threads;
  const auto planned = [&](const char* field, std::int64_t out) {
    return plan_matmul(*plan.context, field, {p.float64, p.nodes, p.width, out}, claims);
  };
  plan.matmuls.query = planned("desc.w_query", p.keys_width);
  plan.matmuls.key = plan.matmuls.query;
  plan.matmuls.value = planned("desc.w_value", p.values_width);
}

double bytes_per_edge(const heed_graph_attention_plan& plan) {
  const GraphProblem& p = plan.problem;
  return static_cast<double>(p.keys_width) * static_cast<double>(plan.key.bytes) +
         static_cast<double>(p.values_width) * static_cast<double>(plan.value.bytes);
}

/// Decides how parts are handed out.
void share_out(heed_graph_attention_plan& plan) {
  const auto parts = static_cast<std::int64_t>(plan.graph->parts.size());
  const std::int64_t threads = plan.context->threads.count;
  const double worth = std::min(
      (plan.gathered_bytes + static_cast<double>(plan.graph->nodes)) / kBytesPerClaim, 1e15);
  const std::int64_t most =
      std::min(static_cast<std::int64_t>(worth) + 1, kClaimsPerThread * threads);
  const std::int64_t claims = std::clamp(most, std::int64_t{1}, std::max(parts, std::int64_t{1}));
  plan.parts_per_claim = std::max(ceil_div(parts, claims), std::int64_t{1});
  plan.workers = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(ceil_div(parts, plan.parts_per_claim), 1, threads));
}

}  // namespace

GraphSizes sizes_of(const GraphProblem& p) {
  return with_real(p.float64, [&](auto real) -> GraphSizes {
    using Real = decltype(real);
    const auto padded = [](std::int64_t features) { return Gather<Real>::padded(features); };
    return {sizeof(Real),
            p.heads,
            round_up(p.heads, static_cast<std::int64_t>(kMaxPanel)),
            padded(p.features),
            padded(p.value_features),
            padded(p.edge_width),
            padded(p.width)};
  });
}

heed_graph_attention_plan make_plan(const heed_context& context, const heed_graph& graph,
                                    const GraphProblem& problem) {
  heed_graph_attention_plan plan{};
  plan.context = &context;
  plan.graph = &graph;
  plan.problem = problem;
  plan.query = problem.query;
  plan.key = problem.key;
  plan.value = problem.value;
  if (problem.inputs != HEED_GRAPH_PROJECTED) {
    place_projections(plan);
    plan_projections(plan);
  }
  plan.gathered_bytes = bytes_per_edge(plan) * static_cast<double>(graph.edges);
  share_out(plan);
  const GraphSizes sizes = sizes_of(problem);
  plan.slab = lay_out_slab(plan, sizes);
  plan.split = lay_out_split(problem, sizes);
  if (graph.nodes > 0) plan.space = lay_out_space(plan, sizes);
  return plan;
}

}  // namespace heed
