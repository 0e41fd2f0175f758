// Checks the arguments of a block's run.
#include "engine/multihead/operands.hpp"
#include "engine/projection/given.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/structs.hpp"

namespace heed {
namespace {

void check_matrices(const MultiheadProblem& p, const heed_multihead_args& args,
                    const PreparedFor& products) {
  check_given(HEED_GIVEN_MATRIX(args, query), p.w_query, p.float64(), products);
  check_given(HEED_GIVEN_MATRIX(args, key), p.w_key, p.float64(), products);
  check_given(HEED_GIVEN_MATRIX(args, value), p.w_value, p.float64(), products);
  if (p.combine == HEED_COMBINE_CONCAT && args.w_out == nullptr && args.p_out == nullptr)
    fail(
        HEED_STATUS_INVALID_ARGUMENT,
        "args.w_out and args.p_out are both NULL; give one of them, or heads stay as they are with "
        "desc.combine HEED_COMBINE_HEADS (5)");
  if (p.has_w_out())
    check_given(HEED_GIVEN_MATRIX(args, out), p.w_out, p.float64(), products);
  else if (args.p_out != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT, "args.p_out is given; it must be NULL %s", kHasWOut.unless);
}

void check_head_weights(const MultiheadProblem& p, const void* head_weights) {
  const bool wanted = p.combine == HEED_COMBINE_WEIGHTED;
  if (wanted != (head_weights != nullptr))
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.head_weights is %s with desc.combine %d; it must be given with "
         "HEED_COMBINE_WEIGHTED (1) and NULL otherwise",
         wanted ? "NULL" : "given", static_cast<int>(p.combine));
}

void check_one_input(const MultiheadProblem& p, const heed_multihead_args& args) {
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
  check_inputs<kBlockOperands>(p, &args, p.float64());
  check_one_input(p, args);
  check_matrices(p, args, products);
  check_head_weights(p, args.head_weights);
  check_kept(p, args, kept_bytes);
  within("args.attention", [&] { validate(p.attention, attention); });
}

}  // namespace heed
