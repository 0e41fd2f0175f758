// The gradients of one block: the descriptor after its defaults are filled in and its fields are
// checked; and how they are cut up: products, attention, and the workspace they share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/dense/backward/plan.hpp"
#include "engine/dense/backward/problem.hpp"
#include "engine/multihead/plan.hpp"

namespace heed {

struct MultiheadBackwardProblem {
  MultiheadProblem block;     ///< keeps the tensors that gradients need, whoever lends the memory
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

/// The arguments of a run, and the arguments of its block as this library knows them.
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

// ---- The plan -----------------------------------------------------------------------------------

/// Rows whose share in the gradient of head weights is summed by itself.
inline constexpr std::int64_t kTermRows = 64;

/// Offsets, in bytes, into the workspace. Gradients of projections and heads lie row by row, and
/// like all values except the terms have the arithmetic's type. Only one step uses `shared` at a
/// time.
struct MultiheadBackwardSpace {
  std::size_t kept;        ///< the tensors that the block keeps, unless a run of it has left them
  std::size_t grad_heads;  ///< later the gradient of an input
  std::size_t grad_query, grad_key, grad_value;
  std::size_t matrix;       ///< [in][out], one that is not plain
  std::size_t grad_matrix;  ///< one that cannot be summed where it goes
  std::size_t terms;        ///< [query_rows / kTermRows][query_heads] float64
  std::size_t shared;       ///< slabs, or the workspaces of block and attention
  std::size_t slab_bytes;
  std::size_t bytes;
};

}  // namespace heed

/// The C API's opaque type.
struct heed_multihead_backward_plan {
  const heed_context* context;
  heed::MultiheadBackwardProblem problem;
  heed_multihead_plan block;
  heed_attention_backward_plan attention;
  heed::MatmulPlan grad_heads;                           ///< if the block has a W_out
  heed::MatmulPlan input_query, input_key, input_value;  ///< from projections back to inputs
  heed::MatmulPlan w_query, w_key, w_value, w_out;       ///< gradients of matrices
  std::uint32_t workers;                                 ///< of products and all that goes by rows
  heed::MultiheadBackwardSpace space;

  std::size_t workspace_bytes() const { return space.bytes; }
};

namespace heed {

/// Reads nothing but its arguments.
heed_multihead_backward_plan make_plan(const heed_context& context,
                                       const MultiheadBackwardProblem& problem);

/// Useful ones: of all gradients, and of the steps that are computed again.
double flops_of(const heed_multihead_backward_plan& plan);

/// The most threads that any step uses.
std::uint32_t workers_of(const heed_multihead_backward_plan& plan);

/// The arguments of the attention inside. Its tensors lie in the workspace, or in args.kept.
struct InnerBackward {
  std::byte* tensors;
  heed_attention_args attention;
  heed_attention_backward_args args;  ///< except for `attention`
};

/// Throws an Error unless all arguments make sense.
InnerBackward checked_arguments(const heed_multihead_backward_plan& plan,
                                const MultiheadBackwardArgs& args, std::byte* workspace);

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_multihead_backward_plan& plan, const heed_multihead_backward_args& args,
              void* workspace, std::size_t bytes);

/// HEED_VERBOSE=1: one line on stderr for a run that took `seconds`.
void print_run(const heed_multihead_backward_plan& plan, const heed_multihead_backward_args& args,
               double seconds) noexcept;

}  // namespace heed
