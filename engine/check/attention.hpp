// Checks of dense attention, by itself or in a block.
#pragma once

#include "engine/check/operands.hpp"
#include "engine/context/context.hpp"
#include "engine/dense/problem.hpp"

namespace heed {

/// Attention, with the names that its caller knows.
struct CheckedAttention {
  const heed_context& context;
  const Problem& problem;
  const heed_attention_args& args;  ///< validated
  const char* desc_name;            ///< prefix of the names of fields, as in "desc."
  const char* args_name;
};

/// The rows of a tensor that belong to sequences of the batch: all, unless sequences are packed.
struct UsedRows {
  std::int64_t first;
  std::int64_t count;
};
UsedRows used_query_rows(const CheckedAttention& of);
UsedRows used_key_rows(const CheckedAttention& of);

/// Adds those rows of a tensor [batch, head, row, feature].
const Operand* add_rows(Operands& all, Role role, const char* field, const void* data,
                        const Layout& layout, const Shape& sizes, const UsedRows& rows,
                        AxisNames& axes = kTensorAxes);
/// Adds everything but query, key, value and out. Returns the bias.
const Operand* add_options(const CheckedAttention& of, Operands& all);

/// Tells of odd numbers in the sequences' rows of a tensor that add_rows has added; nullptr: the
/// run has no such tensor.
void tell_odd_queries(const CheckedAttention& of, const Operand* operand);
void tell_odd_keys(const CheckedAttention& of, const Operand* operand);

/// Whether there is a row to compute. Tells of sizes of 0 where there are tensors.
bool tell_empty(const CheckedAttention& of, bool queries_given, bool keys_given);
/// Tells what looks odd about lengths, offsets, mask, bias and scale.
void tell_odd_options(const CheckedAttention& of, const Operand* bias);
/// Tells of tensors whose strides seem to count bytes, as NumPy's do. Must come before anything is
/// read: such strides lead outside.
void tell_odd_strides(const Operands& all);

}  // namespace heed
