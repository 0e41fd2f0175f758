#include "engine/multihead/backward/problem.hpp"

#include "engine/runtime/error.hpp"
#include "engine/runtime/structs.hpp"

namespace heed {
namespace {

/// Gradients of the attention inside, its tensors contiguous for now.
BackwardProblem resolve_attention(const heed_multihead_backward_desc& desc,
                                  const heed_multihead_desc& block) {
  const heed_attention_desc attention = within("desc.block", [&] {
    const heed_attention_desc inner = read_attention(block);
    within("desc.attention", [&] { check_differentiable(inner); });
    return inner;
  });
  heed_attention_backward_desc inner = HEED_ATTENTION_BACKWARD_DESC_INIT;
  inner.accumulate = desc.accumulate;
  inner.attention = &attention;
  inner.grad_lse = desc.grad_lse;
  inner.grad_bias = desc.grad_bias;
  return validate(inner);
}

void resolve_tensors(const heed_multihead_backward_desc& desc, MultiheadBackwardProblem& p) {
  const Problem& a = p.block.attention;
  const Shapes s = shapes_of(a);
  const bool packed_q = a.packed_queries > 0;
  const bool packed_k = a.packed_keys > 0;
  const ElementType real = real_type(a.float64);
  const auto layout = [&](const char* field, const heed_layout& given, const Shape& rows,
                          std::int64_t width, bool packed, bool written) {
    const Shape shape = {rows[0], 1, rows[2], width};
    check_no_heads(field, given);
    const Layout result = written ? output_layout(field, given, shape, real, packed)
                                  : input_layout(field, given, shape, real, packed);
    check_arithmetic(field, result.type, a.float64);
    return result;
  };
  p.grad_out = layout("desc.grad_out", desc.grad_out, s.query, p.block.width_out, packed_q, false);
  p.grad_input_query = layout("desc.grad_input_query", desc.grad_input_query, s.query,
                              p.block.width_query, packed_q, true);
  p.grad_input_key =
      layout("desc.grad_input_key", desc.grad_input_key, s.key, p.block.width_key, packed_k, true);
}

void resolve_matrices(const heed_multihead_backward_desc& desc, MultiheadBackwardProblem& p) {
  const auto like = [&](const char* field, const heed_matrix_layout& given, std::int64_t in,
                        std::int64_t out, std::int64_t heads = 0) {
    return check_matrix(field, given, heads, heads == 0 ? in : in / heads, out, p.block.float64(),
                        true);
  };
  const MultiheadProblem& b = p.block;
  p.grad_w_query = like("desc.grad_w_query", desc.grad_w_query, b.width_query, b.queries_width);
  p.grad_w_key = like("desc.grad_w_key", desc.grad_w_key, b.width_key, b.keys_width);
  p.grad_w_value = like("desc.grad_w_value", desc.grad_w_value, b.width_key, b.values_width);
  p.grad_w_out =
      like("desc.grad_w_out", desc.grad_w_out, b.heads_width, b.width_out, b.w_out_heads());
  p.grad_b = check_vector("desc.grad_b_dtype", desc.grad_b_dtype, b.float64());
}

}  // namespace

MultiheadBackwardProblem validate(const heed_multihead_backward_desc& desc) {
  check_choice("accumulate", desc.accumulate, "a switch", 1);
  check_reserved("desc.reserved", desc.reserved);
  const heed_multihead_desc block = read_struct(desc.block, "desc.block");
  MultiheadBackwardProblem p{};
  p.block = within("desc.block", [&] { return validate(block); });
  p.kept = p.block.keep;
  p.block.keep = true;
  p.attention = resolve_attention(desc, block);
  resolve_tensors(desc, p);
  resolve_matrices(desc, p);
  return p;
}

MultiheadBackwardArgs::MultiheadBackwardArgs(const heed_multihead_backward_args& args)
    : given(args), block(read_struct(args.block, "args.block")) {}

}  // namespace heed
