// Checks the arguments of a run, and finds out what they say about each sequence of the batch.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/dense/problem.hpp"
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
  if (total == 0) {
    if (offsets != nullptr)
      fail(HEED_STATUS_INVALID_ARGUMENT, "args.%s is given; it must be NULL with desc.%s 0", field,
           total_field);
    return;
  }
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
  if (p.pages == 0 && args.block_table != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.block_table is given; it must be NULL with desc.pages 0");
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

/// Tensors of 8 bits have scales, and no others; `name` is "key" or "value".
void check_scales(const char* name, const StoredTensor& tensor, const RowSizes& keys) {
  const bool scaled = is_scaled(tensor.layout.type);
  if (!scaled && tensor.scales == nullptr) return;  // as a rule; to format takes 50 ns
  char field[32];
  std::snprintf(field, sizeof field, "args.%s_scales", name);
  if (!scaled && tensor.scales != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "%s is given; it must be NULL unless desc.%s.dtype is HEED_DTYPE_I8 (5) or "
         "HEED_DTYPE_F8_E4M3 (6)",
         field, name);
  // Of E4M3 there is one number, also for no keys.
  const bool per_row = tensor.layout.type == ElementType::kI8;
  if (per_row) return check_tensor(field, tensor.scales, tensor.scale_layout, keys.of);
  check_pointer(field, tensor.scales, tensor.scale_layout, has_elements(keys.of));
}

/// An output that the arguments must have if, and only if, the descriptor asks for it.
template <std::size_t kCount>
void check_wanted(const char* field, const void* pointer, const Layout& layout, bool wanted,
                  const char* by, const SizeField (&sizes)[kCount]) {
  if (!wanted && pointer != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s is given; it must be NULL with %s 0", field, by);
  if (!wanted) return;
  if (pointer == nullptr && has_elements(sizes))
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s is NULL; %s asks for it", field, by);
  check_tensor(field, pointer, layout, sizes);
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

void check_optional(const Problem& p, const heed_attention_args& args) {
  check_alignment("args.key_lengths", args.key_lengths, sizeof(std::int32_t));
  check_alignment("args.cu_seqlens_q", args.cu_seqlens_q, sizeof(std::int32_t));
  check_alignment("args.cu_seqlens_k", args.cu_seqlens_k, sizeof(std::int32_t));
  check_alignment("args.weight_rows", args.weight_rows, sizeof(std::int64_t));
  check_alignment("args.block_table", args.block_table, sizeof(std::int32_t));
  check_pointer("args.bias", args.bias, p.bias, false);
  check_pointer("args.lse", args.lse, p.lse, false);
  with_real(p.float64, [&](auto real) {
    check_alignment("args.alibi_slopes", args.alibi_slopes, sizeof real);
    check_alignment("args.sinks", args.sinks, sizeof real);
    check_numbers<decltype(real)>(p, args);
  });
  if (args.alibi_slopes != nullptr && !p.offset_given && p.query_length != p.key_length)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.alibi_slopes is given with desc.alignment 0, desc.query_length %lld and "
         "desc.key_length %lld; distances over different lengths need a heed_alignment, 1 to 3",
         static_cast<long long>(p.query_length), static_cast<long long>(p.key_length));
  if (p.hard && (args.sinks != nullptr || args.lse != nullptr))
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.%s is given; it must be NULL with desc.hard, which has no denominator",
         args.sinks != nullptr ? "sinks" : "lse");
  if (args.score_function == nullptr && args.score_user != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "args.score_user is given; it must be NULL without args.score_function");
}

}  // namespace

RowSizes query_sizes(const Problem& p) {
  const bool whole = p.packed_queries > 0;
  return {{{"batch", whole ? 1 : p.batch},
           {"query_heads", p.query_heads},
           {"query_length", whole ? 1 : p.query_length}}};
}

RowSizes key_sizes(const Problem& p) {
  const bool whole = p.packed_keys > 0 || p.pages > 0;
  return {{{"batch", whole ? 1 : p.batch},
           {"key_heads", p.key_heads},
           {"key_length", whole ? 1 : p.key_length}}};
}

void validate(const Problem& p, const heed_attention_args& args) {
  check_reserved("args.reserved", args.reserved);
  const RowSizes rows = query_sizes(p);
  const RowSizes keys = key_sizes(p);
  check_tensor("args.query", args.query, p.query, rows.of);
  check_tensor("args.key", args.key, p.key, keys.of);
  check_tensor("args.value", args.value, p.value, keys.of);
  check_scales("key", keys_of(p, args), keys);
  check_scales("value", values_of(p, args), keys);
  check_tensor("args.out", args.out, p.out, rows.of);
  check_optional(p, args);
  check_lengths(p, args);
  check_block_table(p, args);
  check_wanted("args.weights", args.weights, p.weights, p.weights_point != HEED_WEIGHTS_NONE,
               "desc.weights_point",
               {{"batch", p.batch},
                {"query_heads", p.query_heads},
                {"query_length", p.query_length},
                {"key_length", p.key_length}});
  check_wanted("args.column_sums", args.column_sums, p.column_sums, p.sum_columns,
               "desc.sum_columns",
               {{"batch", p.batch}, {"query_heads", p.query_heads}, {"key_length", p.key_length}});
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
