// What checks of blocks and of their gradients share.
#pragma once

#include "engine/check/attention.hpp"
#include "engine/multihead/problem.hpp"

namespace heed {

/// A block's tensors but for its attention's.
struct CheckedBlock {
  const MultiheadProblem& problem;
  const heed_multihead_args& args;
  const CheckedAttention& attention;
};

/// Adds an input or output, [batch, row, feature] or packed [row, feature]: rows of queries, or of
/// keys.
const Operand* add_query_rows(Operands& all, const CheckedBlock& of, Role role, const char* field,
                              const void* data, const Layout& layout, std::int64_t width);
const Operand* add_key_rows(Operands& all, const CheckedBlock& of, Role role, const char* field,
                            const void* data, const Layout& layout, std::int64_t width);

struct BlockInputs {
  const Operand* weights_end;  ///< matrices, biases and head weights lie before
  const Operand* query;
  const Operand* key;
};
BlockInputs add_inputs(Operands& all, const CheckedBlock& of);

/// Adds what a run leaves for gradients.
void add_kept(Operands& all, Role role, const CheckedBlock& of);

}  // namespace heed
