// The checks around a run of gradients.
#include "engine/check/attention.hpp"
#include "engine/check/numbers.hpp"
#include "engine/check/overlap.hpp"
#include "engine/check/run.hpp"

namespace heed {
namespace {

struct Gradient {
  const char* field;
  const void* data;
  const Layout& layout;
  const Shape& sizes;
  bool keys;  ///< its rows are keys
};

/// Calls function(gradient, rows) for the gradients of tensors.
template <class Function>
void each_gradient(const CheckedAttention& of, const BackwardProblem& p,
                   const heed_attention_backward_args& args, Function&& function) {
  const Shapes s = shapes_of(p.attention);
  const Gradient all[3] = {{"grad_query", args.grad_query, p.grad_query, s.query, false},
                           {"grad_key", args.grad_key, p.grad_key, s.key, true},
                           {"grad_value", args.grad_value, p.grad_value, s.value, true}};
  for (const Gradient& gradient : all)
    function(gradient, gradient.keys ? used_key_rows(of) : used_query_rows(of));
}

}  // namespace

void check_before(const heed_attention_backward_plan& plan,
                  const heed_attention_backward_args& given, const CheckedWorkspace& workspace) {
  const BackwardArgs args(given);
  const BackwardProblem& problem = plan.problem;
  const Problem& p = problem.attention;
  validate(problem, args);
  const CheckedAttention of = {*plan.context, p, args.attention, "desc.attention->",
                               "args.attention->"};
  const bool computes = tell_empty(of, given.grad_out != nullptr, args.attention.key != nullptr);
  const Shapes s = shapes_of(p);
  const UsedRows queries = used_query_rows(of);
  const UsedRows keys = used_key_rows(of);
  Operands all("args.attention->");
  const auto add = [&](const char* field, const void* data, const Layout& layout,
                       const Shape& sizes, const UsedRows& rows) {
    return add_rows(all, Role::kInput, field, data, layout, sizes, rows, kTensorAxes);
  };
  const Operand* const query = add("query", args.attention.query, p.query, s.query, queries);
  const Operand* const key = add("key", args.attention.key, p.key, s.key, keys);
  const Operand* const value = add("value", args.attention.value, p.value, s.value, keys);
  add("out", args.attention.out, p.out, s.out, queries);
  add("lse", args.attention.lse, p.lse, s.lse, queries);
  heed_attention_args inputs = args.attention;
  inputs.lse = nullptr;  // read here
  const CheckedAttention options = {of.context, p, inputs, of.desc_name, of.args_name};
  const Operand* const bias = add_options(options, all);
  all.rename("args.");
  const Operand* const grad_out = add("grad_out", given.grad_out, problem.grad_out, s.out, queries);
  add("grad_lse", given.grad_lse, problem.grad_lse, s.lse, queries);
  each_gradient(of, problem, given, [&](const Gradient& g, const UsedRows& rows) {
    add_rows(all, Role::kOutput, g.field, g.data, g.layout, g.sizes, rows, kTensorAxes);
  });
  all.add(Role::kOutput, "grad_bias", given.grad_bias, problem.grad_bias, problem.bias_sizes,
          kScoreAxes);
  const Layout real = side_by_side(real_type(p.float64));
  const auto add_numbers = [&](const char* field, const void* data, std::int64_t count) {
    all.add(Role::kOutput, field, data, real, {1, 1, 1, count}, kVectorAxes);
  };
  add_numbers("grad_sinks", given.grad_sinks, p.query_heads);
  add_numbers("grad_alibi_slopes", given.grad_alibi_slopes, p.query_heads);
  add_numbers("grad_scale", given.grad_scale, 1);
  add_numbers("grad_temperature", given.grad_temperature, 1);
  tell_odd_strides(all);
  refuse_overlaps(all, workspace.begin(), workspace.bytes());
  if (!computes) return;
  tell_odd_queries(of, query);
  tell_odd_keys(of, key);
  tell_odd_keys(of, value);
  tell_odd_queries(of, grad_out);
  tell_odd_options(of, bias);
}

void check_after(const heed_attention_backward_plan& plan,
                 const heed_attention_backward_args& given) {
  const BackwardArgs args(given);
  const CheckedAttention of = {*plan.context, plan.problem.attention, args.attention,
                               "desc.attention->", "args.attention->"};
  each_gradient(of, plan.problem, given, [&](const Gradient& g, const UsedRows& rows) {
    Operands all("args.");
    const Operand* const gradient =
        add_rows(all, Role::kOutput, g.field, g.data, g.layout, g.sizes, rows, kTensorAxes);
    g.keys ? tell_odd_keys(of, gradient) : tell_odd_queries(of, gradient);
  });
}

}  // namespace heed
