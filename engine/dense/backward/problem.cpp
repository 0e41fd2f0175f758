#include "engine/dense/backward/problem.hpp"

#include "engine/runtime/error.hpp"
#include "engine/runtime/structs.hpp"

namespace heed {

void check_differentiable(const heed_attention_desc& desc) {
  if (desc.hard != 0)
    fail(HEED_STATUS_UNSUPPORTED,
         "desc.hard is %u; it must be 0: hard attention is not differentiable", desc.hard);
  constexpr const char* kWhere = "where gradients are computed";
  check_zero("desc.weights_point", desc.weights_point, kWhere);
  check_zero("desc.sum_columns", desc.sum_columns, kWhere);
  check_zero("desc.weight_rows", desc.weight_rows, kWhere);
  if (desc.pages != 0)
    fail(HEED_STATUS_UNSUPPORTED,
         "desc.pages is %lld; gradients of keys and values in pages are not supported",
         lld(desc.pages));
  const auto check_bits = [](const char* field, std::uint32_t dtype) {
    if (dtype == HEED_DTYPE_I8 || dtype == HEED_DTYPE_F8_E4M3)
      fail(HEED_STATUS_UNSUPPORTED,
           "desc.%s.dtype is %u; gradients of 8-bit numbers are not supported", field, dtype);
  };
  check_bits("key", desc.key.dtype);
  check_bits("value", desc.value.dtype);
}

namespace {

/// The gradient of a bias has the bias's sizes, and like a bias any type.
void resolve_bias(const heed_score_layout& given, const heed_score_layout& bias,
                  BackwardProblem& p) {
  const Axes axes = score_axes(p.attention);
  const Shape& scores = axes.sizes;
  score_sizes("desc.bias", bias, scores, p.bias_sizes);
  const char* const names[4] = {"batch", "heads", "rows", "keys"};
  const std::int64_t sizes[4] = {given.batch, given.heads, given.rows, given.keys};
  for (int axis = 0; axis < 4; ++axis)
    if (sizes[axis] != 0 && sizes[axis] != p.bias_sizes[axis])
      refuse("desc.grad_bias.%s is %lld; it must be %lld, as that of the bias is, or 0 (the same)",
             names[axis], lld(sizes[axis]), lld(p.bias_sizes[axis]));
  heed_score_layout own = given;
  own.batch = p.bias_sizes[0];
  own.heads = p.bias_sizes[1];
  own.rows = p.bias_sizes[2];
  own.keys = p.bias_sizes[3];
  p.grad_bias = score_layout("desc.grad_bias", own, scores, real_type(p.attention.float64), true);
}

}  // namespace

BackwardProblem validate(const heed_attention_backward_desc& desc) {
  if (desc.attention == nullptr) refuse("desc.attention is NULL");
  check_choice("accumulate", desc.accumulate, "a switch", 1);
  BackwardProblem p{};
  p.accumulate = desc.accumulate != 0;
  const heed_attention_desc attention = read_struct(desc.attention, "desc.attention");
  within("desc.attention", [&] {
    check_differentiable(attention);
    p.attention = validate(attention);
  });
  resolve_layouts<kBackwardOperands>(&desc, p.attention.float64, p);
  resolve_bias(desc.grad_bias, attention.bias, p);
  return p;
}

BackwardArgs::BackwardArgs(const heed_attention_backward_args& args) : given(args), attention{} {
  if (args.attention == nullptr) refuse("args.attention is NULL");
  attention = read_struct(args.attention, "args.attention");
}

void validate(const BackwardProblem& problem, const BackwardArgs& args, const char* attention) {
  const Problem& p = problem.attention;
  const heed_attention_backward_args& given = args.given;
  check_reserved("args.reserved", given.reserved);
  within(attention, [&] { validate(p, args.attention); });
  if (!is_empty(query_axes(p).sizes) && args.attention.lse == nullptr)
    refuse("%s->lse is NULL; gradients need what heed_attention wrote there", attention);
  check_pointers<kBackwardOperands>(problem, &given, p.float64, {&args.attention, attention});
  const bool function = args.attention.score_function != nullptr;
  if (function != (given.score_gradient != nullptr))
    refuse("args.score_gradient is %s with %s->score_function %s; both or neither",
           function ? "NULL" : "given", attention, function ? "given" : "NULL");
}

}  // namespace heed
