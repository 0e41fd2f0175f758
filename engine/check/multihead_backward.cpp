// The checks around a run of the gradients of a multi-head block.
#include "engine/check/multihead.hpp"
#include "engine/check/numbers.hpp"
#include "engine/check/overlap.hpp"
#include "engine/check/run.hpp"
#include "engine/multihead/backward/plan.hpp"

namespace heed {
namespace {

CheckedAttention checked(const heed_multihead_backward_plan& plan,
                         const heed_attention_args& attention) {
  return {*plan.context, plan.problem.block.attention, attention, "desc.block->attention->",
          "args.block->attention->"};
}

struct InputGradients {
  const Operand* query;
  const Operand* key;
};

InputGradients add_input_gradients(const heed_multihead_backward_plan& plan,
                                   const heed_multihead_backward_args& args, const CheckedBlock& of,
                                   Operands& all) {
  const MultiheadBackwardProblem& p = plan.problem;
  // Rows of one input may belong to keys alone.
  const Operand* const query =
      of.args.input_key == nullptr && p.block.attention.packed_keys > 0
          ? all.add(Role::kOutput, "grad_input_query", args.grad_input_query, p.grad_input_query,
                    {1, 1, p.block.query_rows, p.block.width_query}, kTensorAxes)
          : add_query_rows(all, of, Role::kOutput, "grad_input_query", args.grad_input_query,
                           p.grad_input_query, p.block.width_query);
  return {query, add_key_rows(all, of, Role::kOutput, "grad_input_key", args.grad_input_key,
                              p.grad_input_key, p.block.width_key)};
}

void add_gradients(const heed_multihead_backward_plan& plan,
                   const heed_multihead_backward_args& args, Operands& all) {
  const MultiheadBackwardProblem& p = plan.problem;
  const auto add_matrix = [&](const char* field, const void* data, const Matrix& m) {
    all.add(Role::kOutput, field, data, m.layout, {m.in / m.in_each, 1, m.in_each, m.out},
            kMatrixAxes);
  };
  const auto add_numbers = [&](const char* field, const void* data, const Layout& layout,
                               std::int64_t count) {
    all.add(Role::kOutput, field, data, side_by_side(layout.type), {1, 1, 1, count}, kVectorAxes);
  };
  const MultiheadProblem& b = p.block;
  add_matrix("grad_w_query", args.grad_w_query, p.grad_w_query);
  add_matrix("grad_w_key", args.grad_w_key, p.grad_w_key);
  add_matrix("grad_w_value", args.grad_w_value, p.grad_w_value);
  add_matrix("grad_w_out", args.grad_w_out, p.grad_w_out);
  add_numbers("grad_b_query", args.grad_b_query, p.grad_b, b.queries_width);
  add_numbers("grad_b_key", args.grad_b_key, p.grad_b, b.keys_width);
  add_numbers("grad_b_value", args.grad_b_value, p.grad_b, b.values_width);
  add_numbers("grad_b_out", args.grad_b_out, p.grad_b, b.width_out);
  const std::int64_t heads = b.attention.query_heads;
  add_numbers("grad_head_weights", args.grad_head_weights, b.reals, heads);
  all.add(Role::kOutput, "grad_bias", args.grad_bias, p.attention.grad_bias, p.attention.bias_sizes,
          kScoreAxes);
  add_numbers("grad_sinks", args.grad_sinks, b.reals, heads);
  add_numbers("grad_alibi_slopes", args.grad_alibi_slopes, b.reals, heads);
  add_numbers("grad_scale", args.grad_scale, b.reals, 1);
  add_numbers("grad_temperature", args.grad_temperature, b.reals, 1);
}

}  // namespace

void check_before(const heed_multihead_backward_plan& plan,
                  const heed_multihead_backward_args& given, const CheckedWorkspace& workspace) {
  const MultiheadBackwardArgs args(given);
  const MultiheadBackwardProblem& p = plan.problem;
  heed_attention_args attention = checked_arguments(plan, args, workspace.get()).attention;
  attention.lse = nullptr;  // it is not the caller's
  const CheckedAttention of = checked(plan, attention);
  const CheckedBlock block = {p.block, args.block, of};
  const bool computes =
      tell_empty(of, args.block.input_query != nullptr, args.block.input_key != nullptr);

  Operands all("args.block->");
  const BlockInputs inputs = add_inputs(all, block);
  add_kept(all, Role::kInput, block);
  all.rename("args.block->attention->");
  const Operand* const bias = add_options(of, all);
  all.rename("args.");
  const Operand* const grad_out = add_query_rows(all, block, Role::kInput, "grad_out",
                                                 given.grad_out, p.grad_out, p.block.width_out);
  add_rows(all, Role::kInput, "grad_lse", given.grad_lse, p.attention.grad_lse,
           shapes_of(p.block.attention).lse, used_query_rows(of));
  add_input_gradients(plan, given, block, all);
  add_gradients(plan, given, all);
  tell_odd_strides(all);
  refuse_overlaps(all, workspace.begin(), workspace.bytes());
  if (!computes) return;
  for (const Operand* w = all.begin(); w != inputs.weights_end; ++w)
    tell_odd_numbers(of.context, w);
  tell_odd_queries(of, inputs.query);
  tell_odd_keys(of, inputs.key);
  tell_odd_queries(of, grad_out);
  tell_odd_options(of, bias);
}

void check_after(const heed_multihead_backward_plan& plan,
                 const heed_multihead_backward_args& given) {
  const MultiheadBackwardArgs args(given);
  heed_attention_args attention = read_attention_args(args.block);
  const CheckedAttention of = checked(plan, attention);
  Operands all("args.");
  const InputGradients gradients =
      add_input_gradients(plan, given, {plan.problem.block, args.block, of}, all);
  tell_odd_queries(of, gradients.query);
  tell_odd_keys(of, gradients.key);
}

}  // namespace heed
