// One problem of gradients: the descriptor after its defaults are filled in and its fields are
// checked, and its tensors, beside the tensors of the attention itself.
#pragma once

#include "api/heed.h"
#include "engine/dense/operands.hpp"

namespace heed {

struct BackwardProblem {
  Problem attention;
  bool accumulate;
  Layout grad_out, grad_lse;
  Layout grad_query, grad_key, grad_value;
  Layout grad_bias;
  Shape bias_sizes;  ///< 1 along axes that the bias repeats
};

/// Throws unless the attention has gradients, and no outputs beside out and lse.
void check_differentiable(const heed_attention_desc& desc);

/// Throws an Error that names the field, its value and the bound.
BackwardProblem validate(const heed_attention_backward_desc& desc);

/// The arguments of a run, and the arguments of its attention as this library knows them.
struct BackwardArgs {
  heed_attention_backward_args given;
  heed_attention_args attention;

  explicit BackwardArgs(const heed_attention_backward_args& args);
};

/// Throws unless a run has the tensors that it needs. `attention` is what messages call the
/// attention's arguments.
void validate(const BackwardProblem& problem, const BackwardArgs& args,
              const char* attention = "args.attention");

// ---- Tensors ------------------------------------------------------------------------------------

/// The axes of a tensor of the attention.
template <Axes (*kOf)(const Problem&)>
Axes axes_like(const BackwardProblem& p) {
  return kOf(p.attention);
}
inline Axes grad_bias_axes(const BackwardProblem& p) {
  const auto& [batch, heads, rows, keys] = p.bias_sizes;
  return {{batch, heads, rows, keys}, kScoreNames};
}
inline Axes number_axes(const BackwardProblem&) { return vector_axes(1); }

using BackwardApi =
    Structs<heed_attention_backward_desc, heed_attention_backward_args, BackwardProblem>;
#define TENSOR(field) HEED_TENSOR(BackwardApi, field)
#define VECTOR(field) HEED_VECTOR(BackwardApi, field)
#define BIAS(field) HEED_VECTOR_AS(BackwardApi, field, &BackwardProblem::field)
#define INPUT(field) offsetof(heed_attention_args, field)

inline constexpr Operand<BackwardProblem> kBackwardOperands[] = {
    input(TENSOR(grad_out), axes_like<out_axes>).with(Types::kAsQuery),
    option(TENSOR(grad_lse), axes_like<lse_axes>).with(Types::kDenominator),
    wanted(TENSOR(grad_query), axes_like<query_axes>).with(Types::kAsQuery).told(),
    wanted(TENSOR(grad_key), axes_like<key_axes>).with(Types::kAsQuery).told(),
    wanted(TENSOR(grad_value), axes_like<value_axes>).with(Types::kAsQuery).told(),
    wanted(BIAS(grad_bias), grad_bias_axes).of_given(INPUT(bias)),
    wanted(VECTOR(grad_sinks), axes_like<head_axes>).of_given(INPUT(sinks)),
    wanted(VECTOR(grad_alibi_slopes), axes_like<head_axes>).of_given(INPUT(alibi_slopes)),
    wanted(VECTOR(grad_score_weights), axes_like<score_weight_axes>).of_given(INPUT(score_weights)),
    wanted(VECTOR(grad_scale), number_axes),
    wanted(VECTOR(grad_temperature), number_axes),
};

#undef TENSOR
#undef VECTOR
#undef BIAS
#undef INPUT

}  // namespace heed
