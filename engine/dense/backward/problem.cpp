#include "engine/dense/backward/problem.hpp"

#include "engine/runtime/error.hpp"
#include "engine/runtime/structs.hpp"

namespace heed {

void check_differentiable(const heed_attention_desc& desc) {
  if (desc.hard != 0)
    fail(HEED_STATUS_UNSUPPORTED,
         "desc.hard is %u; it must be 0: hard attention is not differentiable", desc.hard);
  const auto check_no_output = [](const char* field, std::int64_t value) {
    if (value != 0)
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "desc.%s is %lld; it must be 0 where gradients are computed", field,
           static_cast<long long>(value));
  };
  check_no_output("weights_point", desc.weights_point);
  check_no_output("sum_columns", desc.sum_columns);
  check_no_output("weight_rows", desc.weight_rows);
  if (desc.pages != 0)
    fail(HEED_STATUS_UNSUPPORTED,
         "desc.pages is %lld; gradients of keys and values in pages are not supported",
         static_cast<long long>(desc.pages));
  const auto check_bits = [](const char* field, std::uint32_t dtype) {
    if (dtype == HEED_DTYPE_I8 || dtype == HEED_DTYPE_F8_E4M3)
      fail(HEED_STATUS_UNSUPPORTED,
           "desc.%s.dtype is %u; gradients of 8-bit numbers are not supported", field, dtype);
  };
  check_bits("key", desc.key.dtype);
  check_bits("value", desc.value.dtype);
}

namespace {

/// Gradients are float64 where, and only where, the arithmetic is.
void check_type(const char* field, const heed_layout& given, bool float64) {
  if (given.dtype != HEED_DTYPE_DEFAULT && (given.dtype == HEED_DTYPE_F64) != float64)
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s.dtype is %u; it must %s, as query is", field,
         given.dtype, float64 ? "be HEED_DTYPE_F64 (2)" : "not be HEED_DTYPE_F64 (2)");
}

/// The gradient of a bias has the bias's sizes, and like a bias any type.
void resolve_bias(const heed_score_layout& given, const heed_score_layout& bias,
                  const Shape& scores, BackwardProblem& p) {
  score_sizes("desc.bias", bias, scores, p.bias_sizes);
  const char* const names[4] = {"batch", "heads", "rows", "keys"};
  const std::int64_t sizes[4] = {given.batch, given.heads, given.rows, given.keys};
  for (int axis = 0; axis < 4; ++axis)
    if (sizes[axis] != 0 && sizes[axis] != p.bias_sizes[axis])
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "desc.grad_bias.%s is %lld; it must be %lld, as that of the bias is, or 0 (the same)",
           names[axis], static_cast<long long>(sizes[axis]),
           static_cast<long long>(p.bias_sizes[axis]));
  heed_score_layout own = given;
  own.batch = p.bias_sizes[0];
  own.heads = p.bias_sizes[1];
  own.rows = p.bias_sizes[2];
  own.keys = p.bias_sizes[3];
  p.grad_bias = score_output_layout("desc.grad_bias", own, scores, real_type(p.attention.float64));
}

}  // namespace

BackwardProblem validate(const heed_attention_backward_desc& desc) {
  if (desc.attention == nullptr) fail(HEED_STATUS_INVALID_ARGUMENT, "desc.attention is NULL");
  check_choice("accumulate", desc.accumulate, "a switch", 1);
  BackwardProblem p{};
  p.accumulate = desc.accumulate != 0;
  const heed_attention_desc attention = read_struct(desc.attention, "desc.attention");
  within("desc.attention", [&] {
    check_differentiable(attention);
    p.attention = validate(attention);
  });
  const Shapes s = shapes_of(p.attention);
  const ElementType real = real_type(p.attention.float64);
  const bool packed_q = p.attention.packed_queries > 0;
  const bool packed_k = p.attention.packed_keys > 0;
  const auto check = [&](const char* field, const heed_layout& given) -> const heed_layout& {
    check_type(field, given, p.attention.float64);
    return given;
  };
  p.grad_out =
      input_layout("desc.grad_out", check("desc.grad_out", desc.grad_out), s.out, real, packed_q);
  check_lse_type("desc.grad_lse", desc.grad_lse);
  p.grad_lse = input_layout("desc.grad_lse", desc.grad_lse, s.lse, real);
  if (packed_q) p.grad_lse.strides.batch = 0;
  p.grad_query = output_layout("desc.grad_query", check("desc.grad_query", desc.grad_query),
                               s.query, real, packed_q);
  p.grad_key =
      output_layout("desc.grad_key", check("desc.grad_key", desc.grad_key), s.key, real, packed_k);
  p.grad_value = output_layout("desc.grad_value", check("desc.grad_value", desc.grad_value),
                               s.value, real, packed_k);
  resolve_bias(desc.grad_bias, attention.bias, s.scores, p);
  return p;
}

BackwardArgs::BackwardArgs(const heed_attention_backward_args& args) : given(args), attention{} {
  if (args.attention == nullptr) fail(HEED_STATUS_INVALID_ARGUMENT, "args.attention is NULL");
  attention = read_struct(args.attention, "args.attention");
}

void validate(const BackwardProblem& problem, const BackwardArgs& args, const char* attention) {
  const Problem& p = problem.attention;
  const heed_attention_backward_args& given = args.given;
  check_reserved("args.reserved", given.reserved);
  within(attention, [&] { validate(p, args.attention); });
  const RowSizes rows = query_sizes(p);
  if (has_elements(rows.of) && args.attention.lse == nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "%s->lse is NULL; gradients need what heed_attention wrote there", attention);
  check_tensor("args.grad_out", given.grad_out, problem.grad_out, rows.of);
  check_pointer("args.grad_lse", given.grad_lse, problem.grad_lse, false);
  check_pointer("args.grad_query", given.grad_query, problem.grad_query, false);
  check_pointer("args.grad_key", given.grad_key, problem.grad_key, false);
  check_pointer("args.grad_value", given.grad_value, problem.grad_value, false);
  check_pointer("args.grad_bias", given.grad_bias, problem.grad_bias, false);
  const auto check_beside = [&](const char* field, const void* gradient, const char* of_field,
                                const void* of) {
    if (gradient != nullptr && of == nullptr)
      fail(HEED_STATUS_INVALID_ARGUMENT, "%s is given; it must be NULL without %s->%s", field,
           attention, of_field);
  };
  check_beside("args.grad_bias", given.grad_bias, "bias", args.attention.bias);
  check_beside("args.grad_sinks", given.grad_sinks, "sinks", args.attention.sinks);
  check_beside("args.grad_alibi_slopes", given.grad_alibi_slopes, "alibi_slopes",
               args.attention.alibi_slopes);
  const bool function = args.attention.score_function != nullptr;
  if (function != (given.score_gradient != nullptr))
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.score_gradient is %s with %s->score_function %s; both or neither",
         function ? "NULL" : "given", attention, function ? "given" : "NULL");
  const std::int64_t bytes = real_bytes(p.float64);
  check_alignment("args.grad_sinks", given.grad_sinks, bytes);
  check_alignment("args.grad_alibi_slopes", given.grad_alibi_slopes, bytes);
  check_alignment("args.grad_scale", given.grad_scale, bytes);
  check_alignment("args.grad_temperature", given.grad_temperature, bytes);
}

}  // namespace heed
