// The checks around a run of a multi-head block.
#include "engine/multihead/multihead.hpp"

#include "engine/check/attention.hpp"
#include "engine/check/matrices.hpp"
#include "engine/check/numbers.hpp"
#include "engine/check/overlap.hpp"
#include "engine/check/run.hpp"

namespace heed {
namespace {

CheckedAttention checked(const heed_multihead_plan& plan, const heed_attention_args& attention) {
  return {*plan.context, plan.problem.attention, attention, "desc.attention->", "args.attention->"};
}

/// Adds an input or output, [batch, row, feature] or packed [row, feature].
const Operand* add(Operands& all, Role role, const char* field, const void* data,
                   const Layout& layout, const Shape& rows_of, std::int64_t width,
                   const UsedRows& rows) {
  return add_rows(all, role, field, data, layout, {rows_of[0], 1, rows_of[2], width}, rows);
}

const Operand* add_out(const heed_multihead_plan& plan, const heed_multihead_args& args,
                       const CheckedAttention& of, Operands& all) {
  return add(all, Role::kOutput, "out", args.out, plan.problem.out, shapes_of(of.problem).out,
             plan.problem.width_out, used_query_rows(of));
}

void add_all_weights(const MultiheadProblem& p, const heed_multihead_args& args, Operands& all) {
  add_weights(all, {"w_query", args.w_query, p.w_query, "b_query", args.b_query, p.bias});
  add_weights(all, {"w_key", args.w_key, p.w_key, "b_key", args.b_key, p.bias});
  add_weights(all, {"w_value", args.w_value, p.w_value, "b_value", args.b_value, p.bias});
  if (p.has_w_out()) add_weights(all, {"w_out", args.w_out, p.w_out, "b_out", args.b_out, p.bias});
  all.add_vector("head_weights", args.head_weights, side_by_side(p.reals.type),
                 p.attention.query_heads);
}

}  // namespace

void check_before(const heed_multihead_plan& plan, const heed_multihead_args& args,
                  const CheckedWorkspace& workspace) {
  const MultiheadProblem& p = plan.problem;
  const heed_attention_args attention = checked_arguments(plan, args, workspace.get());
  const CheckedAttention of = checked(plan, attention);
  const bool computes =
      tell_empty(of, args.input_query != nullptr || args.out != nullptr, args.input_key != nullptr);

  Operands all("args.");
  add_all_weights(p, args, all);
  const Operand* const weights_end = all.end();
  const Shapes s = shapes_of(of.problem);
  const Operand* const query = add(all, Role::kInput, "input_query", args.input_query,
                                   p.input_query, s.query, p.width_query, used_query_rows(of));
  const Operand* const key = add(all, Role::kInput, "input_key", args.input_key, p.input_key, s.key,
                                 p.width_key, used_key_rows(of));
  add_out(plan, args, of, all);
  all.rename("args.attention->");
  const Operand* const bias = add_options(of, all);
  tell_odd_strides(all);
  refuse_overlaps(all, workspace.begin(), workspace.bytes());
  if (!computes) return;
  for (const Operand* w = all.begin(); w != weights_end; ++w) tell_odd_numbers(of.context, w);
  tell_odd_queries(of, query);
  tell_odd_keys(of, key);
  tell_odd_options(of, bias);
}

void check_after(const heed_multihead_plan& plan, const heed_multihead_args& args) {
  const heed_attention_args attention = read_attention_args(args);
  const CheckedAttention of = checked(plan, attention);
  Operands all("args.");
  tell_odd_queries(of, add_out(plan, args, of, all));
}

}  // namespace heed
