// Checks the arguments of a run, and finds out what they say about each sequence of the batch.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/dense/operands.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/element.hpp"

namespace heed {
namespace {

/// Offsets of packed sequences: [batch + 1], growing from at least 0 to at most `total`, none of
/// them more than `longest` apart.
void check_offsets(const char* field, const std::int32_t* offsets, std::int64_t batch,
                   const char* total_field, std::int64_t total, const char* longest_field,
                   std::int64_t longest) {
  if (total == 0) return;
  if (offsets == nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT, "args.%s is NULL; desc.%s is %lld", field, total_field,
         static_cast<long long>(total));
  for (std::int64_t b = 0; b <= batch; ++b) {
    const std::int64_t low = b == 0 ? 0 : offsets[b - 1];
    const std::int64_t offset = offsets[b];
    if (offset < low || offset > total)
      fail(HEED_STATUS_INVALID_ARGUMENT, "args.%s[%lld] is %lld; it must be %lld to %lld", field,
           static_cast<long long>(b), static_cast<long long>(offset), static_cast<long long>(low),
           static_cast<long long>(total));
    if (b > 0 && offset - low > longest)
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "args.%s[%lld] is %lld; that makes a sequence of %lld rows, and desc.%s is %lld", field,
           static_cast<long long>(b), static_cast<long long>(offset),
           static_cast<long long>(offset - low), longest_field, static_cast<long long>(longest));
  }
}

std::int64_t keys_at_hand(const Problem& p, const heed_attention_args& args, std::int64_t b) {
  return args.cu_seqlens_k != nullptr ? args.cu_seqlens_k[b + 1] - args.cu_seqlens_k[b]
                                      : p.key_length;
}

void check_lengths(const Problem& p, const heed_attention_args& args) {
  check_offsets("cu_seqlens_q", args.cu_seqlens_q, p.batch, "packed_queries", p.packed_queries,
                "query_length", p.query_length);
  check_offsets("cu_seqlens_k", args.cu_seqlens_k, p.batch, "packed_keys", p.packed_keys,
                "key_length", p.key_length);
  if (args.key_lengths == nullptr) return;
  for (std::int64_t b = 0; b < p.batch; ++b)
    if (args.key_lengths[b] < 0 || args.key_lengths[b] > keys_at_hand(p, args, b))
      fail(HEED_STATUS_INVALID_ARGUMENT, "args.key_lengths[%lld] is %d; it must be 0 to %lld",
           static_cast<long long>(b), args.key_lengths[b],
           static_cast<long long>(keys_at_hand(p, args, b)));
}

/// The entries that sequences need: those past their lengths are not read.
void check_block_table(const Problem& p, const heed_attention_args& args) {
  if (p.pages == 0 || p.key_heads == 0) return;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t used = ceil_div(sequence_of(p, args, b).key_length, p.page_rows);
    if (used > 0 && args.block_table == nullptr)
      fail(HEED_STATUS_INVALID_ARGUMENT, "args.block_table is NULL; desc.pages is %lld",
           static_cast<long long>(p.pages));
    for (std::int64_t n = 0; n < used; ++n) {
      const std::int32_t page = args.block_table[b * p.table_stride + n];
      if (page < 0 || page >= p.pages)
        fail(HEED_STATUS_INVALID_ARGUMENT,
             "args.block_table[%lld][%lld] is %d; it must be 0 to %lld, for desc.pages",
             static_cast<long long>(b), static_cast<long long>(n), page,
             static_cast<long long>(p.pages - 1));
    }
  }
}

void check_weight_rows(const Problem& p, const std::int64_t* rows) {
  if ((rows != nullptr) != (p.weight_rows > 0))
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.weight_rows is %s with desc.weight_rows %lld; both or neither list rows",
         rows == nullptr ? "NULL" : "given", static_cast<long long>(p.weight_rows));
  for (std::int64_t n = 0; n < p.weight_rows; ++n) {
    const std::int64_t low = n == 0 ? 0 : rows[n - 1] + 1;
    if (rows[n] < low || rows[n] >= p.query_length)
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "args.weight_rows[%lld] is %lld; it must be %lld to %lld: rows increase",
           static_cast<long long>(n), static_cast<long long>(rows[n]), static_cast<long long>(low),
           static_cast<long long>(p.query_length - 1));
  }
}

/// Every row of int8 has a scale; of E4M3 there is one, which may be given also for no keys.
void check_scales(const char* field, const StoredTensor& tensor, const Axes& rows) {
  const bool empty = is_empty(rows.sizes);
  if (is_scaled(tensor.layout.type) && tensor.scales == nullptr && !empty)
    refuse_pointer(field, nullptr, sizeof(float));
  if (tensor.layout.type == ElementType::kI8 && tensor.scales != nullptr && empty)
    refuse_empty(field, rows);
}

/// One number per query head, of the arithmetic's type.
template <class Real, class Allows>
void check_heads(const char* field, const void* numbers, const Problem& p, const char* bound,
                 Allows&& allows) {
  const auto* const of = static_cast<const Real*>(numbers);
  for (std::int64_t h = 0; of != nullptr && h < p.query_heads; ++h)
    if (!allows(of[h]))
      fail(HEED_STATUS_INVALID_ARGUMENT, "%s[%lld] is %g; it must %s", field,
           static_cast<long long>(h), static_cast<double>(of[h]), bound);
}

template <class Real>
void check_numbers(const Problem& p, const heed_attention_args& args) {
  // In the kernels' units: an infinite slope times a distance of 0 would be NaN.
  check_heads<Real>("args.alibi_slopes", args.alibi_slopes, p,
                    "be finite, also times log2(e) / temperature", [&](Real slope) {
                      return std::fabs(static_cast<double>(slope) * p.log2_unit) <=
                             static_cast<double>(std::numeric_limits<Real>::max());
                    });
  check_heads<Real>("args.sinks", args.sinks, p, "not be NaN",
                    [](Real sink) { return !std::isnan(sink); });
}

void check_options(const Problem& p, const heed_attention_args& args) {
  with_real(p.float64, [&](auto real) { check_numbers<decltype(real)>(p, args); });
  if (args.alibi_slopes != nullptr && !p.offset_given && p.query_length != p.key_length)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.alibi_slopes is given with desc.alignment 0, desc.query_length %lld and "
         "desc.key_length %lld; distances over different lengths need a heed_alignment, 1 to 3",
         static_cast<long long>(p.query_length), static_cast<long long>(p.key_length));
  if (args.score_function == nullptr && args.score_user != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.score_user is given; it must be NULL without args.score_function");
}

}  // namespace

void validate(const Problem& p, const heed_attention_args& args) {
  check_reserved("args.reserved", args.reserved);
  check_pointers<kAttentionOperands>(p, &args, p.float64);
  check_scales("args.key_scales", keys_of(p, args), key_axes(p));
  check_scales("args.value_scales", values_of(p, args), value_axes(p));
  check_options(p, args);
  check_lengths(p, args);
  check_block_table(p, args);
  check_weight_rows(p, args.weight_rows);
}

Limits Problem::limits(std::int64_t queries, std::int64_t keys) const {
  constexpr std::int64_t kFar = std::int64_t{1} << 41;
  Limits limits = {bottom_right ? keys - queries : offset, -kFar, kFar};
  std::int64_t sum = 0;
  if (left != kUnbounded && !__builtin_sub_overflow(limits.offset, left, &sum))
    limits.first = std::clamp(sum, -kFar, kFar);
  if (right != kUnbounded && !__builtin_add_overflow(limits.offset, right, &sum))
    limits.end = std::clamp(sum, -kFar, kFar - 1) + 1;
  return limits;
}

Sequence sequence_of(const Problem& p, const heed_attention_args& args, std::int64_t b) {
  Sequence s{};
  s.batch = b;
  s.query_length = args.cu_seqlens_q != nullptr ? args.cu_seqlens_q[b + 1] - args.cu_seqlens_q[b]
                                                : p.query_length;
  if (args.cu_seqlens_q != nullptr && s.query_length > 0) s.query_begin = args.cu_seqlens_q[b];
  if (args.cu_seqlens_k != nullptr && keys_at_hand(p, args, b) > 0)
    s.key_begin = args.cu_seqlens_k[b];
  s.key_length = args.key_lengths != nullptr ? args.key_lengths[b] : keys_at_hand(p, args, b);
  if (args.block_table != nullptr) s.pages = args.block_table + b * p.table_stride;
  s.page_rows = p.page_rows;
  s.limits = p.limits(s.query_length, s.key_length);
  return s;
}

}  // namespace heed
