// Checks the arguments of a block's run.
#include "engine/multihead/problem.hpp"
#include "engine/projection/given.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/structs.hpp"

namespace heed {
namespace {

void check_no_matrix(const GivenMatrix& given) {
  if (given.w == nullptr && given.b == nullptr && given.p == nullptr) return;
  fail(HEED_STATUS_INVALID_ARGUMENT,
       "%s is given; it must be NULL unless desc.combine is HEED_COMBINE_CONCAT (0) or "
       "HEED_COMBINE_TENSOR (4)",
       given.w != nullptr ? given.w_field : (given.b != nullptr ? given.b_field : given.p_field));
}

void check_matrices(const MultiheadProblem& p, const heed_multihead_args& args,
                    const PreparedFor& products) {
  check_given(
      {"args.w_query", args.w_query, "args.b_query", args.b_query, "args.p_query", args.p_query},
      p.w_query, p.bias, p.float64(), products);
  check_given({"args.w_key", args.w_key, "args.b_key", args.b_key, "args.p_key", args.p_key},
              p.w_key, p.bias, p.float64(), products);
  check_given(
      {"args.w_value", args.w_value, "args.b_value", args.b_value, "args.p_value", args.p_value},
      p.w_value, p.bias, p.float64(), products);
  const GivenMatrix out = {"args.w_out", args.w_out,   "args.b_out",
                           args.b_out,   "args.p_out", args.p_out};
  if (p.combine == HEED_COMBINE_CONCAT && args.w_out == nullptr && args.p_out == nullptr)
    fail(
        HEED_STATUS_INVALID_ARGUMENT,
        "args.w_out and args.p_out are both NULL; give one of them, or heads stay as they are with "
        "desc.combine HEED_COMBINE_HEADS (5)");
  if (p.has_w_out()) return check_given(out, p.w_out, p.bias, p.float64(), products);
  check_no_matrix(out);
}

void check_head_weights(const MultiheadProblem& p, const void* head_weights) {
  const bool wanted = p.combine == HEED_COMBINE_WEIGHTED;
  if (wanted == (head_weights != nullptr))
    return check_pointer("args.head_weights", head_weights, p.reals, false);
  fail(HEED_STATUS_INVALID_ARGUMENT,
       "args.head_weights is %s with desc.combine %d; it must be given with HEED_COMBINE_WEIGHTED "
       "(1) and NULL otherwise",
       wanted ? "NULL" : "given", static_cast<int>(p.combine));
}

void check_inputs(const MultiheadProblem& p, const heed_multihead_args& args) {
  check_tensor("args.input_query", args.input_query, p.input_query, query_sizes(p.attention).of);
  if (args.input_key != nullptr)
    check_tensor("args.input_key", args.input_key, p.input_key, key_sizes(p.attention).of);
  if (args.input_key == nullptr && p.key_rows > 0 && !p.one_input_fits)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.input_key is NULL; input_query can stand for it only with as many rows and "
         "features, and %lld x %lld are not %lld x %lld",
         static_cast<long long>(p.query_rows), static_cast<long long>(p.width_query),
         static_cast<long long>(p.key_rows), static_cast<long long>(p.width_key));
}

void check_kept(const MultiheadProblem& p, const heed_multihead_args& args, std::size_t bytes) {
  if (!p.keep && args.kept != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT, "args.kept is given; it must be NULL with desc.keep 0");
  if (!p.keep && args.kept_bytes != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "args.kept_bytes is %zu; it must be 0 with desc.keep 0",
         args.kept_bytes);
  if (bytes == 0) return;
  if (args.kept == nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT, "args.kept is NULL; desc.keep 1 needs %zu bytes", bytes);
  if (args.kept_bytes < bytes)
    fail(HEED_STATUS_INVALID_ARGUMENT, "args.kept_bytes is %zu; it must be at least %zu",
         args.kept_bytes, bytes);
  check_alignment("args.kept", args.kept, HEED_WORKSPACE_ALIGNMENT);
}

}  // namespace

heed_attention_args read_attention_args(const heed_multihead_args& args) {
  if (args.attention == nullptr) return HEED_ATTENTION_ARGS_INIT;
  const heed_attention_args inner = read_struct(args.attention, "args.attention");
  const struct {
    const char* name;
    const void* pointer;
  } own[] = {{"query", inner.query},           {"key", inner.key},
             {"value", inner.value},           {"out", inner.out},
             {"key_scales", inner.key_scales}, {"value_scales", inner.value_scales}};
  for (const auto& tensor : own)
    if (tensor.pointer != nullptr)
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "args.attention->%s is given; it must be NULL: the block makes its own", tensor.name);
  return inner;
}

void validate(const MultiheadProblem& p, const heed_multihead_args& args,
              const heed_attention_args& attention, const PreparedFor& products,
              std::size_t kept_bytes) {
  check_reserved("args.reserved", args.reserved);
  check_inputs(p, args);
  check_matrices(p, args, products);
  check_head_weights(p, args.head_weights);
  check_kept(p, args, kept_bytes);
  within("args.attention", [&] { validate(p.attention, attention); });
}

}  // namespace heed
