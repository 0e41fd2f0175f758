#include "engine/graph/plan.hpp"

#include <algorithm>

#include "engine/graph/gather.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/heads.hpp"

namespace heed {
namespace {

/// Handing out a claim of less work than this costs more than it saves (some 20 us).
constexpr double kBytesPerClaim = 2e5;

/// So many claims per thread even out their different lengths, and threads that come late.
constexpr std::int64_t kClaimsPerThread = 64;

std::size_t checked(const Offsets& offsets, const char* what, const GraphProblem& p) {
  return offsets.end(what, {{"desc.heads", p.heads},
                            {"desc.features", p.features},
                            {"desc.value_features", p.value_features},
                            {"desc.width", p.width},
                            {"desc.edge_width", p.edge_width}});
}

GraphSpace lay_out_space(const heed_graph_attention_plan& plan, const GraphSizes& s) {
  const GraphProblem& p = plan.problem;
  Offsets offsets;
  GraphSpace space{};
  space.splits = offsets.take(plan.graph->splits, static_cast<std::int64_t>(plan.split.bytes), 1);
  space.w_edge_key = offsets.take(s.features * p.edge_width, s.heads, s.number);
  space.w_edge_value = offsets.take(s.value_features * p.edge_width, s.heads, s.number);
  space.data = offsets.take(p.copies_data() ? p.nodes : 0, p.width, s.number);
  if (!p.is_projected()) {
    space.query = offsets.take(p.nodes, p.query.strides.row, s.number);
    space.key_value = offsets.take(p.nodes, p.key.strides.row, s.number);
  }
  space.slab_bytes =
      std::max({plan.slab.bytes, plan.matmuls.keys.slab.bytes, plan.matmuls.values.slab.bytes});
  space.slabs = offsets.take(std::max(plan.workers, plan.project_workers),
                             static_cast<std::int64_t>(space.slab_bytes), 1);
  space.bytes = checked(offsets, "the workspace", p);
  return space;
}

/// Where projections lie: keys and values of a node side by side, rows at the beginning of a line.
void place_projections(GraphProblem& p) {
  const std::int64_t number = real_bytes(p.float64);
  const std::int64_t line = HEED_WORKSPACE_ALIGNMENT / number;
  const auto rows = [&](std::int64_t features, Size row) {
    return Layout{real_type(p.float64), number, {0, features, round_up(row, line).value(), 1}};
  };
  const Size both = Size(p.keys_width) + p.values_width;
  p.query = rows(p.features, p.keys_width);
  p.key = rows(p.features, both);
  p.value = rows(p.value_features, both);
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
  plan.matmuls.keys = planned("desc.w_query", p.keys_width);
  plan.matmuls.values = planned("desc.w_value", p.values_width);
}

/// Decides how ranges are handed out.
void plan_claims(heed_graph_attention_plan& plan) {
  const auto ranges = static_cast<std::int64_t>(plan.graph->ranges.size());
  const std::int64_t threads = plan.context->threads.count;
  const double worth = std::min(
      (plan.gathered_bytes + static_cast<double>(plan.graph->nodes)) / kBytesPerClaim, 1e15);
  const std::int64_t most =
      std::min(static_cast<std::int64_t>(worth) + 1, kClaimsPerThread * threads);
  const std::int64_t claims = std::clamp(most, std::int64_t{1}, std::max(ranges, std::int64_t{1}));
  plan.ranges_per_claim = std::max(ceil_div(ranges, claims), std::int64_t{1});
  plan.workers = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(ceil_div(ranges, plan.ranges_per_claim), 1, threads));
}

const char* name_of(heed_activation activation) {
  constexpr const char* kNames[] = {"identity", "leaky-relu", "tanh"};
  return kNames[activation];
}

const char* name_of(heed_graph_inputs inputs) {
  constexpr const char* kNames[] = {"projected", "shared", "per-node"};
  return kNames[inputs];
}

Text options_of(const GraphProblem& p, const heed_graph_attention_args& args) {
  Text text;
  if (p.is_projected()) {
    text.add(" %s,%s,%s->%s", name_of(p.query.type), name_of(p.key.type), name_of(p.value.type),
             name_of(p.out.type));
  } else {
    text.add(" %s->%s width=%lld", name_of(p.data.type), name_of(p.out.type), lld(p.width));
  }
  if (!p.is_product())
    text.add(" %s of %s", p.score == HEED_SCORE_SUM ? "sum" : "additive", name_of(p.activation));
  text.add_if(p.divides_by_norms(), " cosine");
  if (p.edge_width > 0) text.add(" edge_width=%lld", lld(p.edge_width));
  if (p.softcap > 0) text.add(" softcap=%g", p.softcap);
  text.add_if(args.edge_bias != nullptr, " bias");
  if (p.temperature != 1) text.add(" temperature=%g", p.temperature);
  if (p.dropout > 0) text.add(" dropout=%u/%u", p.dropout, kDropoutValues);
  text.add_if(p.hard, " hard");
  text.add_if(p.residual, " residual");
  if (p.steps > 1) text.add(" steps=%lld", lld(p.steps));
  text.add_if(args.lse != nullptr, " lse");
  text.add_if(args.weights != nullptr, " weights");
  return text;
}

}  // namespace

GraphSizes sizes_of(const heed_graph_attention_plan& plan) {
  const GraphProblem& p = plan.problem;
  return with_real(p.float64, [&](auto real) {
    using Real = decltype(real);
    const auto padded = [](std::int64_t features) { return Gather<Real>::padded(features); };
    GraphSizes s;
    s.number = sizeof(Real);
    s.heads = p.heads;
    s.padded_heads = round_up(p.heads, GraphBuffers::kPanel);
    s.features = padded(p.features);
    s.value_features = padded(p.value_features);
    s.edge_width = padded(p.edge_width);
    s.width = padded(p.width);
    s.hard = p.hard;
    s.activates = !p.is_product();
    s.score_weights = p.is_dot() ? Size(0) : s.features;
    s.copies_keys = s.activates
                        ? p.edge_width > 0 || !Gather<Real>::has_padded_reals(p.key, p.features)
                        : p.divides_by_norms() || !Gather<Real>::in_place(p.key, p.features);
    s.copies_values = !Gather<Real>::in_place(p.value, p.value_features);
    const Size out = s.heads * std::max(s.features.value(), s.value_features.value());
    if (p.inputs == HEED_GRAPH_PER_NODE) s.matrix_row = std::max(s.width.value(), out.value());
    return s;
  });
}

heed_graph_attention_plan make_plan(const heed_context& context, const heed_graph& graph,
                                    const GraphProblem& problem) {
  heed_graph_attention_plan plan{};
  plan.context = &context;
  plan.graph = &graph;
  plan.problem = problem;
  if (!problem.is_projected()) {
    place_projections(plan.problem);
    plan_projections(plan);
  }
  const double bytes_per_edge =
      static_cast<double>(problem.keys_width) * static_cast<double>(plan.problem.key.bytes) +
      static_cast<double>(problem.values_width) * static_cast<double>(plan.problem.value.bytes);
  plan.gathered_bytes = bytes_per_edge * static_cast<double>(graph.edges);
  plan_claims(plan);
  const GraphSizes sizes = sizes_of(plan);
  plan.slab = NodeSlab{{{sizes, {}}}};
  plan.slab.bytes = checked(plan.slab.offsets, "a thread's workspace", problem);
  plan.split = SplitSlab{{{sizes, {}}}};
  plan.split.bytes = checked(plan.split.offsets, "what a part of a node leaves", problem);
  if (graph.nodes > 0) plan.space = lay_out_space(plan, sizes);
  return plan;
}

void print_graph(const char* what, const heed_graph_attention_plan& plan, const GraphProblem& p,
                 const heed_graph_attention_args& args, std::size_t tasks, double gathered_bytes,
                 double seconds) noexcept {
  const heed_context& c = *plan.context;
  const double bytes = gathered_bytes * static_cast<double>(p.steps);
  tell(
      "%s N%lld E%lld H%lld D%lld Dv%lld %s scale %.6g %s%s, %s %s x%u, "
      "%zu tasks, %.3f ms, %.2f GB/s gathered",
      what, lld(p.nodes), lld(plan.graph->edges), lld(p.heads), lld(p.features),
      lld(p.value_features), name_of(p.inputs), p.scale, name_of(p.combine),
      options_of(p, args).c_str(), c.kernels->f32.isa, c.threads.name, plan.workers, tasks,
      seconds * 1e3, seconds > 0 ? bytes / seconds * 1e-9 : 0.0);
}

void print_run(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
               double seconds) noexcept {
  print_graph("graph", plan, plan.problem, args, plan.graph->ranges.size(), plan.gathered_bytes,
              seconds);
}

}  // namespace heed
