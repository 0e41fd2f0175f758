// Matrices and vectors of weights, as callers give them.
#pragma once

#include "engine/check/operands.hpp"
#include "engine/context/context.hpp"
#include "engine/projection/matrix.hpp"

namespace heed {

/// A matrix, or several one below the other, and the bias; nullptr: not given.
struct GivenWeights {
  const char* w_field;
  const void* w;
  const Matrix& matrix;
  const char* b_field;
  const void* b;
  const Layout& bias;
};
void add_weights(Operands& all, const GivenWeights& given);

/// Likewise one matrix per node, which have no bias.
void add_node_weights(Operands& all, const GivenWeights& given, std::int64_t nodes);

/// Tells of odd strides and numbers of weights that are to be prepared.
void check_to_prepare(const heed_context& context, const GivenWeights& given);

}  // namespace heed
