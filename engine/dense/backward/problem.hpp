// One problem of gradients: the descriptor after its defaults are filled in and its fields are
// checked.
#pragma once

#include "api/heed.h"
#include "engine/dense/problem.hpp"

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

/// The arguments of a run, with those of its attention as this library knows them.
struct BackwardArgs {
  heed_attention_backward_args given;
  heed_attention_args attention;

  explicit BackwardArgs(const heed_attention_backward_args& args);
};

/// Throws unless a run has the tensors that it needs. `attention` is what messages call the
/// attention's arguments.
void validate(const BackwardProblem& problem, const BackwardArgs& args,
              const char* attention = "args.attention");

}  // namespace heed
