// The tensors of a block's gradients, beside those of the block and of the attention's gradients.
#pragma once

#include "engine/multihead/backward/problem.hpp"
#include "engine/multihead/operands.hpp"

namespace heed {

/// The axes of a tensor of the block.
template <Axes (*kOf)(const MultiheadProblem&)>
Axes axes_like(const MultiheadBackwardProblem& p) {
  return kOf(p.block);
}

using BlockGradient = Condition<MultiheadBackwardProblem>;
inline constexpr BlockGradient kGradHasWOut = {
    [](const MultiheadBackwardProblem& p) { return p.block.has_w_out(); },
    "unless desc.block->combine is HEED_COMBINE_CONCAT (0) or HEED_COMBINE_TENSOR (4)",
    BlockGradient::kResolved};
inline constexpr BlockGradient kGradWeighsHeads = {
    [](const MultiheadBackwardProblem& p) { return p.block.combine == HEED_COMBINE_WEIGHTED; },
    "unless desc.block->combine is HEED_COMBINE_WEIGHTED (1)"};

struct BlockBackwardApi {
  using Desc = heed_multihead_backward_desc;
  using Args = heed_multihead_backward_args;
  using Checked = MultiheadBackwardProblem;
};
#define TENSOR(field) HEED_TENSOR(BlockBackwardApi, field)
#define VECTOR(field) HEED_VECTOR(BlockBackwardApi, field)
#define BIAS(field) HEED_VECTOR_AS(BlockBackwardApi, field, &MultiheadBackwardProblem::grad_b)

inline constexpr Operand<MultiheadBackwardProblem> kBlockBackwardOperands[] = {
    input(TENSOR(grad_out), axes_like<block_query_axes<kWidthOut>>)
        .with(Types::kArithmetic)
        .without_heads(),
    wanted(TENSOR(grad_input_query), axes_like<block_query_axes<kWidthQuery>>)
        .with(Types::kArithmetic)
        .without_heads()
        .told(),
    wanted(TENSOR(grad_input_key), axes_like<block_key_axes<kWidthKey>>)
        .with(Types::kArithmetic)
        .without_heads()
        .told(),
    wanted(TENSOR(grad_w_query), axes_like<block_matrix_axes<kWidthQuery, kQueriesWidth>>),
    wanted(TENSOR(grad_w_key), axes_like<block_matrix_axes<kWidthKey, kKeysWidth>>),
    wanted(TENSOR(grad_w_value), axes_like<block_matrix_axes<kWidthKey, kValuesWidth>>),
    wanted(TENSOR(grad_w_out), axes_like<w_out_axes>).only(kGradHasWOut),
    wanted(BIAS(grad_b_query), axes_like<block_bias_axes<kQueriesWidth>>),
    wanted(BIAS(grad_b_key), axes_like<block_bias_axes<kKeysWidth>>),
    wanted(BIAS(grad_b_value), axes_like<block_bias_axes<kValuesWidth>>),
    wanted(BIAS(grad_b_out), axes_like<block_bias_axes<kWidthOut>>).only(kGradHasWOut),
    wanted(VECTOR(grad_head_weights), axes_like<block_head_axes>).only(kGradWeighsHeads),
};

#undef TENSOR
#undef VECTOR
#undef BIAS

}  // namespace heed
