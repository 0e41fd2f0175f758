#include "engine/check/attention.hpp"

#include <algorithm>

#include "engine/check/numbers.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

UsedRows used(const std::int32_t* offsets, std::int64_t batch, std::int64_t length) {
  if (offsets == nullptr) return {0, length};
  return {offsets[0], offsets[batch] - offsets[0]};
}

/// Counts the rows [begin, begin + length) of an item of the batch; packed rows belong to no other.
void count_rows(Numbers& numbers, const Operand& operand, bool packed, std::int64_t item,
                std::int64_t begin, std::int64_t length) {
  Box box = whole(operand);
  box.begin[0] = packed ? 0 : item;
  box.end[0] = box.begin[0] + 1;
  box.begin[2] = begin - operand.first_row;
  box.end[2] = box.begin[2] + length;
  numbers.count(box);
}

}  // namespace

UsedRows used_query_rows(const CheckedAttention& of) {
  return used(of.args.cu_seqlens_q, of.problem.batch, of.problem.query_length);
}

UsedRows used_key_rows(const CheckedAttention& of) {
  const Problem& p = of.problem;
  return used(of.args.cu_seqlens_k, p.batch, p.pages > 0 ? p.page_rows : p.key_length);
}

const Operand* add_rows(Operands& all, Role role, const char* field, const void* data,
                        const Layout& layout, const Shape& sizes, const UsedRows& rows,
                        AxisNames& axes) {
  return all.add(role, field, data, layout, {sizes[0], sizes[1], rows.count, sizes[3]}, axes,
                 rows.first);
}

const Operand* add_options(const CheckedAttention& of, Operands& all) {
  const Problem& p = of.problem;
  const heed_attention_args& args = of.args;
  const Shapes shapes = shapes_of(p);
  const Layout real = side_by_side(real_type(p.float64));
  const Layout int32 = side_by_side(ElementType::kMask, sizeof(std::int32_t));
  const Layout int64 = side_by_side(ElementType::kMask, sizeof(std::int64_t));
  all.add(Role::kInput, "mask", args.mask, p.mask, shapes.scores, kScoreAxes);
  const Operand* const bias =
      all.add(Role::kInput, "bias", args.bias, p.bias, shapes.scores, kScoreAxes);
  all.add_vector("key_lengths", args.key_lengths, int32, p.batch);
  all.add_vector("cu_seqlens_q", args.cu_seqlens_q, int32, p.batch + 1);
  all.add_vector("cu_seqlens_k", args.cu_seqlens_k, int32, p.batch + 1);
  if (p.pages > 0 && p.batch > 0)
    all.add_vector("block_table", args.block_table, int32,
                   (p.batch - 1) * p.table_stride + ceil_div(p.key_length, p.page_rows));
  all.add_vector("alibi_slopes", args.alibi_slopes, real, p.query_heads);
  all.add_vector("sinks", args.sinks, real, p.query_heads);
  all.add_vector("weight_rows", args.weight_rows, int64, p.weight_rows);
  add_rows(all, Role::kOutput, "lse", args.lse, p.lse, shapes.lse, used_query_rows(of));
  all.add(Role::kOutput, "weights", args.weights, p.weights, shapes.weights, kScoreAxes);
  all.add(Role::kOutput, "column_sums", args.column_sums, p.column_sums, shapes.column_sums,
          kTensorAxes);
  return bias;
}

void tell_odd_queries(const CheckedAttention& of, const Operand* operand) {
  if (operand == nullptr) return;
  Numbers numbers(of.context, *operand);
  for (std::int64_t b = 0; b < of.problem.batch; ++b) {
    const Sequence s = sequence_of(of.problem, of.args, b);
    count_rows(numbers, *operand, of.args.cu_seqlens_q != nullptr, b, s.query_begin,
               s.query_length);
  }
  numbers.tell_odd();
}

void tell_odd_keys(const CheckedAttention& of, const Operand* operand) {
  if (operand == nullptr) return;
  Numbers numbers(of.context, *operand);
  for (std::int64_t b = 0; b < of.problem.batch; ++b) {
    const Sequence s = sequence_of(of.problem, of.args, b);
    if (s.pages == nullptr) {
      count_rows(numbers, *operand, of.args.cu_seqlens_k != nullptr, b, s.key_begin, s.key_length);
      continue;
    }
    for (std::int64_t j = 0; j < s.key_length; j += s.page_rows)
      count_rows(numbers, *operand, false, s.pages[j / s.page_rows], 0,
                 std::min(s.page_rows, s.key_length - j));
  }
  numbers.tell_odd();
}

}  // namespace heed
