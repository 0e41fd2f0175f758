#include "engine/multihead/backward/operands.hpp"
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
  resolve_layouts(kBlockBackwardOperands, &desc, p.block.float64(), p);
  p.grad_b = check_vector("desc.grad_b_dtype", desc.grad_b_dtype, p.block.float64());
  return p;
}

MultiheadBackwardArgs::MultiheadBackwardArgs(const heed_multihead_backward_args& args)
    : given(args), block(read_struct(args.block, "args.block")) {}

}  // namespace heed
