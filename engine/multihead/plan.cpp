#include "engine/multihead/plan.hpp"

#include <algorithm>

#include "engine/dense/plan.hpp"
#include "engine/multihead/backward/plan.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/heads.hpp"

namespace heed {
namespace {

/// A stride of a tensor of the workspace, from batch item to batch item unless rows are packed.
std::int64_t stride_of(const Axes& axes, Size elements) {
  const auto& [batch, heads, rows, features] = axes.sizes;
  return elements.checked(
      "the projections",
      {{"desc.attention: rows", rows}, {"heads", heads}, {"features", features}});
}
std::int64_t batch_stride_of(const Axes& axes, Size elements) {
  return axes.nesting == Nesting::kAsListed ? stride_of(axes, elements) : 0;
}

/// [batch][head][row][feature], or [head][row][feature] of packed rows: the rows of a head lie side
/// by side, so that they do not share cache sets.
Strides by_head(const Axes& axes) {
  const auto& [batch, heads, rows, features] = axes.sizes;
  const Size head = Size(rows) * features;
  return {batch_stride_of(axes, head * heads), stride_of(axes, head), features, 1};
}

/// Whether a block's intermediate results are bfloat16, as its input is, so that all of its
/// products multiply pairs.
bool computes_in_pairs(const heed_context& context, const MultiheadProblem& p) {
  return multiplies_pairs(context, p.input_query.type, ElementType::kBf16);
}

void place_projections(const heed_context& context, MultiheadProblem& block) {
  const auto place = context.backend == Backend::kHeed ? by_head : by_row;
  Problem& p = block.attention;
  p.projected = true;
  if (computes_in_pairs(context, block)) {
    for (Layout* const layout : {&p.query, &p.key, &p.value, &p.out}) {
      if (layout == &p.out && !block.has_w_out()) continue;  // combined as floats
      layout->type = ElementType::kBf16;
      layout->bytes = bytes_of(layout->type);
    }
  }
  p.query.strides = place(query_axes(p));
  p.key.strides = place(key_axes(p));
  p.value.strides = place(value_axes(p));
  p.out.strides = by_row(out_axes(p));
}

/// Every head has panels of its own where its rows fill them; short sequences would leave more than
/// an eighth of them empty. Products of pairs have panels of another kind. The shape and
/// the types alone decide: asking for weights, or keeping tensors, must not change out.
Placement choose_placement(const heed_context& context, const MultiheadProblem& p) {
  const Problem& a = p.attention;
  const std::int64_t lanes = Widths::of(context, a.float64).lanes;
  const std::int64_t padding = round_up(a.query_length, lanes) - a.query_length;
  if (most_product_parts(context, p.input_query.type) > 0 || context.backend != Backend::kHeed ||
      !a.is_dot() || !p.has_w_out() || a.packed_queries > 0 || a.batch == 0 ||
      padding * 8 > a.query_length)
    return Placement::kPacked;
  return Placement::kByHead;
}

void plan_products(const heed_context& context, heed_multihead_plan& plan) {
  const MultiheadProblem& p = plan.problem;
  const auto most_parts = [&](const Layout& x) { return most_product_parts(context, x.type); };
  const std::uint32_t queries = most_parts(p.input_query);
  const std::uint32_t keys = std::max(queries, most_parts(p.input_key));  // may be one input
  const std::uint32_t heads = most_parts(p.attention.out);
  const MatmulSize query = {p.float64(), p.query_rows, p.width_query, p.queries_width, queries};
  const MatmulSize key = {p.float64(), p.key_rows, p.width_key, p.keys_width, keys};
  const MatmulSize value = {p.float64(), p.key_rows, p.width_key, p.values_width, keys};
  const MatmulSize out = {p.float64(), p.query_rows, p.heads_width, p.width_out, heads};
  const double before = flops_of(query) + flops_of(key) + flops_of(value);
  const double after = p.has_w_out() ? flops_of(out) : 0;
  const double combining = 2.0 * static_cast<double>(p.query_rows) *
                           static_cast<double>(p.heads_width);  // without a W_out
  // Every thread gets as many tasks; products of one size take the same time.
  const std::int64_t claims = claims_for(context);
  const auto share = [&](const MatmulSize& part) {
    const double claimed = flops_of(part) / std::max(before, 1.0) * static_cast<double>(claims);
    return round_up(static_cast<std::int64_t>(claimed) + 1, context.threads.count);
  };
  plan.query = plan_matmul(context, "desc.w_query", query, share(query));
  plan.key = plan_matmul(context, "desc.w_key", key, share(key));
  plan.value = plan_matmul(context, "desc.w_value", value, share(value));
  plan.matmul_workers = workers_for(context, before);
  plan.combine_workers = workers_for(context, after > 0 ? after : combining);
  if (p.has_w_out()) plan.out = plan_matmul(context, "desc.w_out", out, claims);
  plan.projection_flops = before + after;
}

/// Steps that run one after the other share memory, except for kept tensors.
void lay_out(heed_multihead_plan& plan) {
  const MultiheadProblem& p = plan.problem;
  const std::int64_t number = real_bytes(p.float64());
  Offsets offsets;
  Offsets kept;
  Offsets& tensors = p.keep ? kept : offsets;
  MultiheadSpace& s = plan.space;
  const Problem& a = p.attention;
  s.heads = tensors.take(p.query_rows, p.heads_width, a.out.bytes);
  s.query = tensors.take(p.query_rows, p.queries_width, a.query.bytes);
  s.key = tensors.take(p.key_rows, p.keys_width, a.key.bytes);
  s.value = tensors.take(p.key_rows, p.values_width, a.value.bytes);
  if (p.keep) s.lse = kept.take(p.query_rows, p.attention.query_heads, sizeof(double));
  Offsets row;
  row.take(1, p.attention.value_features, number);
  const auto checked = [&](const Offsets& buffers) {
    return buffers.end("the workspace", {{"the number of query rows", p.query_rows},
                                         {"key rows", p.key_rows},
                                         {"desc.attention->query_heads", p.attention.query_heads},
                                         {"features", p.attention.features},
                                         {"value_features", p.attention.value_features}});
  };
  s.slab_bytes = std::max({plan.query.slab.bytes, plan.key.slab.bytes, plan.value.slab.bytes,
                           plan.out.slab.bytes, checked(row)});
  const Size slabs = Size(std::max(plan.matmul_workers, plan.combine_workers)) *
                     static_cast<std::int64_t>(s.slab_bytes);
  s.shared =
      offsets.take(std::max(slabs.value(), static_cast<std::int64_t>(plan.attention.bytes)), 1, 1);
  s.bytes = checked(offsets);
  s.kept_bytes = checked(kept);
}

/// A run that keeps its tensors keeps a log-sum-exp of its own, whatever the caller wants.
Problem kept(Problem p) {
  p.lse = {ElementType::kF64, sizeof(double), by_head(lse_axes(p))};
  return p;
}

}  // namespace

Strides by_row(const Axes& axes) {
  const auto& [batch, heads, rows, features] = axes.sizes;
  const Size row = Size(heads) * features;
  return {batch_stride_of(axes, row * rows), features, stride_of(axes, row), 1};
}

heed_multihead_plan make_plan(const heed_context& context, const MultiheadProblem& problem) {
  heed_multihead_plan plan{};
  plan.context = &context;
  plan.problem = problem;
  place_projections(context, plan.problem);
  plan.attention = within("desc.attention", [&] {
    const Problem& own = plan.problem.attention;
    return make_plan(context, problem.keep ? kept(own) : own, choose_placement(context, problem));
  });
  plan_products(context, plan);
  lay_out(plan);
  return plan;
}

std::uint32_t workers_of(const heed_multihead_plan& plan) {
  return std::max({plan.matmul_workers, plan.attention.workers, plan.combine_workers});
}

namespace {

void tell_run(const char* what, const heed_multihead_plan& plan, const MultiheadProblem& p,
              const heed_multihead_args& args, bool kept, std::uint32_t workers, double flops,
              double seconds) {
  const Problem& a = p.attention;
  const heed_context& c = *plan.context;
  Text precision;
  if (plan.precision() != Precision::kExact) precision.add(" %s", name_of(plan.precision()));
  tell("%s %s widths %lld,%lld->%lld %s%s%s, %s product, %s%s %s x%u, %.3f ms, %.1f GFLOP/s", what,
       sizes_of(a).c_str(), lld(p.width_query), lld(p.width_key), lld(p.width_out),
       name_of(p.combine), options_of(a, read_attention_args(args)).c_str(), kept ? " kept" : "",
       name_of(c.backend), c.kernels->f32.isa, precision.c_str(), c.threads.name, workers,
       seconds * 1e3, seconds > 0 ? flops / seconds * 1e-9 : 0.0);
}

}  // namespace

void print_run(const heed_multihead_plan& plan, const heed_multihead_args& args,
               double seconds) noexcept {
  tell_run("multihead", plan, plan.problem, args, plan.problem.keep, workers_of(plan),
           plan.projection_flops + plan.attention.flops, seconds);
}

void print_run(const heed_multihead_backward_plan& plan, const heed_multihead_backward_args& given,
               double seconds) noexcept {
  const MultiheadBackwardArgs args(given);
  tell_run("multihead backward", plan.block, plan.problem.block, args.block, plan.problem.kept,
           workers_of(plan), flops_of(plan), seconds);
}

}  // namespace heed
