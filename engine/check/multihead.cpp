// The checks around a run of a multi-head block.
#include "engine/check/multihead.hpp"

#include "engine/check/attention.hpp"
#include "engine/check/matrices.hpp"
#include "engine/check/numbers.hpp"
#include "engine/check/overlap.hpp"
#include "engine/check/run.hpp"
#include "engine/multihead/multihead.hpp"

namespace heed {
namespace {

CheckedAttention checked(const heed_multihead_plan& plan, const heed_attention_args& attention) {
  return {*plan.context, plan.problem.attention, attention, "desc.attention->", "args.attention->"};
}

const Operand* add(Operands& all, Role role, const char* field, const void* data,
                   const Layout& layout, const Shape& rows_of, std::int64_t width,
                   const UsedRows& rows) {
  return add_rows(all, role, field, data, layout, {rows_of[0], 1, rows_of[2], width}, rows);
}

void add_all_weights(const MultiheadProblem& p, const heed_multihead_args& args, Operands& all) {
  add_weights(all, {"w_query", args.w_query, p.w_query, "b_query", args.b_query, p.bias});
  add_weights(all, {"w_key", args.w_key, p.w_key, "b_key", args.b_key, p.bias});
  add_weights(all, {"w_value", args.w_value, p.w_value, "b_value", args.b_value, p.bias});
  if (p.has_w_out()) add_weights(all, {"w_out", args.w_out, p.w_out, "b_out", args.b_out, p.bias});
  all.add_vector("head_weights", args.head_weights, side_by_side(p.reals.type),
                 p.attention.query_heads);
}

const Operand* add_out(Operands& all, const CheckedBlock& of) {
  return add_query_rows(all, of, Role::kOutput, "out", of.args.out, of.problem.out,
                        of.problem.width_out);
}

}  // namespace

const Operand* add_query_rows(Operands& all, const CheckedBlock& of, Role role, const char* field,
                              const void* data, const Layout& layout, std::int64_t width) {
  return add(all, role, field, data, layout, shapes_of(of.problem.attention).query, width,
             used_query_rows(of.attention));
}

const Operand* add_key_rows(Operands& all, const CheckedBlock& of, Role role, const char* field,
                            const void* data, const Layout& layout, std::int64_t width) {
  return add(all, role, field, data, layout, shapes_of(of.problem.attention).key, width,
             used_key_rows(of.attention));
}

BlockInputs add_inputs(Operands& all, const CheckedBlock& of) {
  const MultiheadProblem& p = of.problem;
  add_all_weights(p, of.args, all);
  const Operand* const weights_end = all.end();
  const Operand* const query = add_query_rows(all, of, Role::kInput, "input_query",
                                              of.args.input_query, p.input_query, p.width_query);
  return {weights_end, query,
          add_key_rows(all, of, Role::kInput, "input_key", of.args.input_key, p.input_key,
                       p.width_key)};
}

void add_kept(Operands& all, Role role, const CheckedBlock& of) {
  all.add(role, "kept", of.args.kept, side_by_side(ElementType::kMask),
          {1, 1, 1, static_cast<std::int64_t>(of.args.kept_bytes)}, kVectorAxes);
}

void check_before(const heed_multihead_plan& plan, const heed_multihead_args& args,
                  const CheckedWorkspace& workspace) {
  const MultiheadProblem& p = plan.problem;
  const heed_attention_args attention = checked_arguments(plan, args, workspace.get());
  const CheckedAttention of = checked(plan, attention);
  const bool computes =
      tell_empty(of, args.input_query != nullptr || args.out != nullptr, args.input_key != nullptr);

  Operands all("args.");
  const CheckedBlock block = {p, args, of};
  const BlockInputs inputs = add_inputs(all, block);
  add_out(all, block);
  add_kept(all, Role::kOutput, block);
  all.rename("args.attention->");
  const Operand* const bias = add_options(of, all);
  tell_odd_strides(all);
  refuse_overlaps(all, workspace.begin(), workspace.bytes());
  if (!computes) return;
  for (const Operand* w = all.begin(); w != inputs.weights_end; ++w)
    tell_odd_numbers(of.context, w);
  tell_odd_queries(of, inputs.query);
  tell_odd_keys(of, inputs.key);
  tell_odd_options(of, bias);
}

void check_after(const heed_multihead_plan& plan, const heed_multihead_args& args) {
  const heed_attention_args attention = read_attention_args(args);
  const CheckedAttention of = checked(plan, attention);
  Operands all("args.");
  tell_odd_queries(of, add_out(all, {plan.problem, args, of}));
}

}  // namespace heed
