#include "engine/multihead/backward/plan.hpp"

#include <algorithm>

#include "engine/multihead/plan.hpp"
#include "engine/projection/over_rows.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/structs.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

/// Gradients of the attention inside, its tensors contiguous for now.
BackwardProblem resolve_attention(const heed_multihead_backward_desc& desc,
                                  const heed_multihead_desc& block) {
  const heed_attention_desc attention = within("desc.block", [&] {
    const heed_attention_desc inner = read_attention(block);
    within("desc.attention", [&] { check_differentiable(inner); });
    return inner;
  });
  heed_attention_backward_desc inner = HEED_ATTENTION_BACKWARD_DESC_INIT;
  inner.accumulate = desc.accumulate;
  inner.attention = &attention;
  inner.grad_lse = desc.grad_lse;
  inner.grad_bias = desc.grad_bias;
  return validate(inner);
}

}  // namespace

MultiheadBackwardProblem validate(const heed_multihead_backward_desc& desc) {
  check_choice("accumulate", desc.accumulate, "a switch", 1);
  check_reserved("desc.reserved", desc.reserved);
  const heed_multihead_desc block = read_struct(desc.block, "desc.block");
  MultiheadBackwardProblem p{};
  p.block = within("desc.block", [&] { return validate(block); });
  p.kept = p.block.keep;
  p.block.keep = true;
  p.attention = resolve_attention(desc, block);
  resolve_layouts<kBlockBackwardOperands>(&desc, p.block.float64(), p);
  p.grad_b = check_vector("desc.grad_b_dtype", desc.grad_b_dtype, p.block.float64());
  return p;
}

MultiheadBackwardArgs::MultiheadBackwardArgs(const heed_multihead_backward_args& args)
    : given(args), block(read_struct(args.block, "args.block")) {}

InnerBackward checked_arguments(const heed_multihead_backward_plan& plan,
                                const MultiheadBackwardArgs& args, std::byte* workspace) {
  const heed_multihead_backward_args& given = args.given;
  const MultiheadBackwardSpace& s = plan.space;
  InnerBackward inner{};
  inner.tensors = plan.problem.kept ? static_cast<std::byte*>(args.block.kept) : workspace + s.kept;
  MultiheadProblem as_given = plan.problem.block;
  as_given.keep = plan.problem.kept;
  within("args.block", [&] {
    inner.attention = placed_arguments(plan.block, args.block, inner.tensors);
    inner.attention.lse = nullptr;
    validate(as_given, args.block, inner.attention, prepared_for(*plan.context),
             plan.problem.kept ? plan.block.space.kept_bytes : 0);
  });
  inner.attention.lse = inner.tensors + plan.block.space.lse;
  check_reserved("args.reserved", given.reserved);
  if (given.grad_input_key != nullptr && args.one_input())
    refuse(
        "args.grad_input_key is given; it must be NULL where args.block->input_key is: "
        "grad_input_query is the sum of both");
  check_pointers<kBlockBackwardOperands>(plan.problem, &given, plan.problem.block.float64());

  heed_attention_backward_args& a = inner.args;
  a = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  a.attention = &inner.attention;
  const bool from_keys =
      given.grad_input_key != nullptr || (args.one_input() && given.grad_input_query != nullptr);
  const auto wanted = [&](std::size_t offset, const void* w, const void* b, bool input) {
    return w != nullptr || b != nullptr || input ? workspace + offset : nullptr;
  };
  if (plan.problem.block.query_rows > 0) a.grad_out = workspace + s.grad_heads;
  a.grad_lse = given.grad_lse;
  a.grad_query = wanted(s.grad_query, given.grad_w_query, given.grad_b_query,
                        given.grad_input_query != nullptr);
  a.grad_key = wanted(s.grad_key, given.grad_w_key, given.grad_b_key, from_keys);
  a.grad_value = wanted(s.grad_value, given.grad_w_value, given.grad_b_value, from_keys);
  a.grad_bias = given.grad_bias;
  a.grad_sinks = given.grad_sinks;
  a.grad_alibi_slopes = given.grad_alibi_slopes;
  a.grad_scale = given.grad_scale;
  a.grad_temperature = given.grad_temperature;
  a.score_gradient = given.score_gradient;
  a.grad_score_weights = given.grad_score_weights;
  validate(plan.attention.problem, BackwardArgs(a), "args.block->attention");
  a.attention = nullptr;  // it will lie elsewhere
  return inner;
}

namespace {

/// The attention's tensors lie where the block's run puts them, its gradients row by row.
BackwardProblem placed(const BackwardProblem& problem, const heed_multihead_plan& block) {
  const Problem& own = block.attention.problem;
  BackwardProblem p = problem;
  p.attention = own;
  p.grad_out.strides = own.out.strides;
  p.grad_query.strides = by_row(query_axes(own));
  p.grad_key.strides = by_row(key_axes(own));
  p.grad_value.strides = by_row(value_axes(own));
  return p;
}

void plan_products(const heed_context& context, heed_multihead_backward_plan& plan) {
  const MultiheadProblem& p = plan.problem.block;
  const auto product = [&](const char* field, std::int64_t rows, std::int64_t in,
                           std::int64_t out) {
    return plan_matmul(context, field, {p.float64(), rows, in, out}, claims_for(context));
  };
  const auto over_rows = [&](const char* field, std::int64_t rows, const Matrix& gradient) {
    return plan_gradient(context, field, p.float64(), rows, gradient);
  };
  plan.input_query = product("desc.block->w_query", p.query_rows, p.queries_width, p.width_query);
  plan.input_key = product("desc.block->w_key", p.key_rows, p.keys_width, p.width_key);
  plan.input_value = product("desc.block->w_value", p.key_rows, p.values_width, p.width_key);
  plan.w_query = over_rows("desc.grad_w_query", p.query_rows, plan.problem.grad_w_query);
  plan.w_key = over_rows("desc.grad_w_key", p.key_rows, plan.problem.grad_w_key);
  plan.w_value = over_rows("desc.grad_w_value", p.key_rows, plan.problem.grad_w_value);
  if (!p.has_w_out()) return;
  plan.grad_heads = product("desc.block->w_out", p.query_rows, p.width_out, p.heads_width);
  plan.w_out = over_rows("desc.grad_w_out", p.query_rows, plan.problem.grad_w_out);
}

void lay_out(heed_multihead_backward_plan& plan) {
  const MultiheadProblem& p = plan.problem.block;
  const std::int64_t number = real_bytes(p.float64());
  const auto checked = [&](const Offsets& buffers) {
    return buffers.end("the workspace", {{"the number of query rows", p.query_rows},
                                         {"key rows", p.key_rows},
                                         {"desc.block->width_query", p.width_query},
                                         {"width_key", p.width_key},
                                         {"width_out", p.width_out},
                                         {"a row of all heads", p.heads_width}});
  };
  MultiheadBackwardSpace& s = plan.space;
  Offsets offsets;
  s.kept = offsets.take_bytes(plan.problem.kept ? 0 : plan.block.space.kept_bytes);
  const Size inputs[] = {Size(p.query_rows) * p.heads_width, Size(p.query_rows) * p.width_query,
                         Size(p.key_rows) * p.width_key};
  s.grad_heads =
      offsets.take(std::max({inputs[0].value(), inputs[1].value(), inputs[2].value()}), 1, number);
  s.grad_query = offsets.take(p.query_rows, p.queries_width, number);
  s.grad_key = offsets.take(p.key_rows, p.keys_width, number);
  s.grad_value = offsets.take(p.key_rows, p.values_width, number);
  const Size matrices[] = {Size(p.width_query) * p.queries_width, Size(p.width_key) * p.keys_width,
                           Size(p.width_key) * p.values_width,
                           Size(p.heads_width) * (p.has_w_out() ? p.width_out : 0)};
  const std::int64_t largest = std::max(
      {matrices[0].value(), matrices[1].value(), matrices[2].value(), matrices[3].value()});
  s.matrix = offsets.take(largest, 1, number);
  s.grad_matrix = offsets.take(largest, 1, number);
  const bool weighted = p.combine == HEED_COMBINE_WEIGHTED;
  s.terms = offsets.take(weighted ? ceil_div(p.query_rows, kTermRows) : 0, p.attention.query_heads,
                         sizeof(double));
  Offsets row;  // one of anything
  row.take(std::max({p.width_query, p.width_key, p.width_out, p.queries_width, p.keys_width,
                     p.values_width, p.heads_width}),
           1, number);
  s.slab_bytes = checked(row);
  for (const MatmulPlan* const product :
       {&plan.input_query, &plan.input_key, &plan.input_value, &plan.w_query, &plan.w_key,
        &plan.w_value, &plan.w_out, &plan.grad_heads})
    s.slab_bytes = std::max(s.slab_bytes, product->slab.bytes);
  const Size slabs = Size(plan.workers) * static_cast<std::int64_t>(s.slab_bytes);
  s.shared = offsets.take(
      std::max({slabs.value(), static_cast<std::int64_t>(plan.attention.bytes),
                plan.problem.kept ? 0 : static_cast<std::int64_t>(plan.block.space.bytes)}),
      1, 1);
  s.bytes = checked(offsets);
}

}  // namespace

heed_multihead_backward_plan make_plan(const heed_context& context,
                                       const MultiheadBackwardProblem& problem) {
  heed_multihead_backward_plan plan{};
  plan.context = &context;
  plan.problem = problem;
  plan.block = within("desc.block", [&] { return make_plan(context, problem.block); });
  plan.attention = make_plan(context, placed(problem.attention, plan.block));
  plan_products(context, plan);
  plan.workers = workers_for(context, 2 * plan.block.projection_flops);
  lay_out(plan);
  return plan;
}

double flops_of(const heed_multihead_backward_plan& plan) {
  const heed_multihead_plan& block = plan.block;
  const double again = block.projection_flops + block.attention.flops;
  return 2 * block.projection_flops + plan.attention.flops + (plan.problem.kept ? 0 : again);
}

std::uint32_t workers_of(const heed_multihead_backward_plan& plan) {
  return std::max(
      {plan.workers, plan.attention.workers, plan.problem.kept ? 1 : workers_of(plan.block)});
}

}  // namespace heed
