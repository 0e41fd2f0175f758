// The checks around a run of dense attention.
#include "engine/check/attention.hpp"
#include "engine/check/numbers.hpp"
#include "engine/check/overlap.hpp"
#include "engine/check/run.hpp"

namespace heed {
namespace {

CheckedAttention checked(const heed_attention_plan& plan, const heed_attention_args& args) {
  return {*plan.context, plan.problem, args, "desc.", "args."};
}

const Operand* add_out(const CheckedAttention& of, Operands& all) {
  return add_rows(all, Role::kOutput, "out", of.args.out, of.problem.out, shapes_of(of.problem).out,
                  used_query_rows(of));
}

/// Of rows, or of a whole tensor.
void tell_odd_scales(const CheckedAttention& of, const Operand* scales, const Layout& scaled) {
  if (scaled.type == ElementType::kI8) return tell_odd_keys(of, scales);
  tell_odd_numbers(of.context, scales);
}

}  // namespace

void check_before(const heed_attention_plan& plan, const heed_attention_args& args,
                  const CheckedWorkspace& workspace) {
  const Problem& p = plan.problem;
  validate(p, args);
  const CheckedAttention of = checked(plan, args);
  const bool computes =
      tell_empty(of, args.query != nullptr || args.out != nullptr, args.key != nullptr);

  const Shapes s = shapes_of(p);
  const UsedRows queries = used_query_rows(of);
  const UsedRows keys = used_key_rows(of);
  Operands all("args.");
  const auto add = [&](const char* field, const void* data, const Layout& layout,
                       const Shape& sizes, const UsedRows& rows, AxisNames& axes) {
    return add_rows(all, Role::kInput, field, data, layout, sizes, rows, axes);
  };
  AxisNames& key_axes = p.pages > 0 ? kPageAxes : kTensorAxes;
  const Operand* const query = add("query", args.query, p.query, s.query, queries, kTensorAxes);
  const Operand* const key = add("key", args.key, p.key, s.key, keys, key_axes);
  const Operand* const value = add("value", args.value, p.value, s.value, keys, key_axes);
  const auto add_scales = [&](const char* field, const StoredTensor& t) {
    return t.layout.type == ElementType::kI8
               ? add(field, t.scales, t.scale_layout, s.scales, keys, key_axes)
               : all.add_vector(field, t.scales, side_by_side(ElementType::kF32), 1);
  };
  const Operand* const key_scales = add_scales("key_scales", keys_of(p, args));
  const Operand* const value_scales = add_scales("value_scales", values_of(p, args));
  add_out(of, all);
  const Operand* const bias = add_options(of, all);
  tell_odd_strides(all);
  refuse_overlaps(all, workspace.begin(), workspace.bytes());
  if (!computes) return;
  tell_odd_queries(of, query);
  tell_odd_keys(of, key);
  tell_odd_keys(of, value);
  tell_odd_scales(of, key_scales, p.key);
  tell_odd_scales(of, value_scales, p.value);
  tell_odd_options(of, bias);
}

void check_after(const heed_attention_plan& plan, const heed_attention_args& args) {
  const CheckedAttention of = checked(plan, args);
  Operands all("args.");
  tell_odd_queries(of, add_out(of, all));
}

}  // namespace heed
