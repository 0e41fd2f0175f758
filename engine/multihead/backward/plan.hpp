// How the gradients of a block are cut up: products, attention, and the workspace they share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/dense/backward/plan.hpp"
#include "engine/multihead/backward/problem.hpp"
#include "engine/multihead/plan.hpp"

namespace heed {

/// Rows whose share in the gradient of head weights is summed by itself.
inline constexpr std::int64_t kTermRows = 64;

/// Offsets, in bytes, into the workspace. Gradients of projections and heads lie row by row, and
/// like all numbers but the terms have the arithmetic's type. Only one step uses `shared` at a
/// time.
struct MultiheadBackwardSpace {
  std::size_t kept;        ///< what the block keeps, unless a run of it has left that
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

/// Useful ones: those of computing all gradients, and of what is computed again.
double flops_of(const heed_multihead_backward_plan& plan);

/// The most threads that any step uses.
std::uint32_t workers_of(const heed_multihead_backward_plan& plan);

/// The arguments of the attention inside. Its tensors lie in the workspace, or in what is kept.
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
