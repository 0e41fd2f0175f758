// The gradients of one block: the descriptor after its defaults are filled in and its fields are
// checked.
#pragma once

#include "engine/dense/backward/problem.hpp"
#include "engine/multihead/problem.hpp"

namespace heed {

struct MultiheadBackwardProblem {
  MultiheadProblem block;     ///< keeps what gradients need, whoever lends the memory
  bool kept;                  ///< a run of the block has left it
  BackwardProblem attention;  ///< the plan says where in the workspace its tensors lie
  Layout grad_out, grad_input_query, grad_input_key;
  Matrix grad_w_query, grad_w_key, grad_w_value;
  Matrix grad_w_out;  ///< if the block has a W_out
  Layout grad_b;      ///< of every bias

  bool accumulate() const { return attention.accumulate; }
};

/// Throws an Error that names the field, its value and the bound.
MultiheadBackwardProblem validate(const heed_multihead_backward_desc& desc);

/// The arguments of a run, with those of its block as this library knows them.
struct MultiheadBackwardArgs {
  heed_multihead_backward_args given;
  heed_multihead_args block;

  explicit MultiheadBackwardArgs(const heed_multihead_backward_args& args);

  bool one_input() const { return block.input_key == nullptr; }
};

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

using BlockBackwardApi =
    Structs<heed_multihead_backward_desc, heed_multihead_backward_args, MultiheadBackwardProblem>;
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
