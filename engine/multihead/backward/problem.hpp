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

}  // namespace heed
