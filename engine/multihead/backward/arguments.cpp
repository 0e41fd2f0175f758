// Checks the arguments of a run of a block's gradients.
#include "engine/multihead/backward/plan.hpp"
#include "engine/multihead/multihead.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

/// Everything but the block and the attention.
void check(const MultiheadBackwardProblem& p, const MultiheadBackwardArgs& args) {
  const heed_multihead_backward_args& given = args.given;
  const MultiheadProblem& b = p.block;
  check_reserved("args.reserved", given.reserved);
  check_tensor("args.grad_out", given.grad_out, p.grad_out, query_sizes(b.attention).of);
  const auto check_only = [](const char* field, const void* gradient, bool may, const char* why) {
    if (gradient != nullptr && !may)
      fail(HEED_STATUS_INVALID_ARGUMENT, "%s is given; it must be NULL %s", field, why);
  };
  check_only("args.grad_input_key", given.grad_input_key, !args.one_input(),
             "where args.block->input_key is: grad_input_query is the sum of both");
  constexpr const char* kNoMatrix =
      "unless desc.block->combine is HEED_COMBINE_CONCAT (0) or HEED_COMBINE_TENSOR (4)";
  check_only("args.grad_w_out", given.grad_w_out, b.has_w_out(), kNoMatrix);
  check_only("args.grad_b_out", given.grad_b_out, b.has_w_out(), kNoMatrix);
  check_only("args.grad_head_weights", given.grad_head_weights, b.combine == HEED_COMBINE_WEIGHTED,
             "unless desc.block->combine is HEED_COMBINE_WEIGHTED (1)");
  const struct {
    const char* field;
    const void* data;
    const Layout& layout;
  } all[] = {
      {"args.grad_input_query", given.grad_input_query, p.grad_input_query},
      {"args.grad_input_key", given.grad_input_key, p.grad_input_key},
      {"args.grad_w_query", given.grad_w_query, p.grad_w_query.layout},
      {"args.grad_w_key", given.grad_w_key, p.grad_w_key.layout},
      {"args.grad_w_value", given.grad_w_value, p.grad_w_value.layout},
      {"args.grad_w_out", given.grad_w_out, p.grad_w_out.layout},
      {"args.grad_b_query", given.grad_b_query, p.grad_b},
      {"args.grad_b_key", given.grad_b_key, p.grad_b},
      {"args.grad_b_value", given.grad_b_value, p.grad_b},
      {"args.grad_b_out", given.grad_b_out, p.grad_b},
      {"args.grad_head_weights", given.grad_head_weights, b.reals},
  };
  for (const auto& gradient : all)
    check_pointer(gradient.field, gradient.data, gradient.layout, false);
}

}  // namespace

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
  check(plan.problem, args);

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
