#include "engine/multihead/backward/operands.hpp"
#include "engine/multihead/backward/plan.hpp"
#include "engine/multihead/multihead.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/structs.hpp"

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
    fail(HEED_STATUS_INVALID_ARGUMENT,
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
  validate(plan.attention.problem, BackwardArgs(a), "args.block->attention");
  a.attention = nullptr;  // it will lie elsewhere
  return inner;
}

}  // namespace heed
