// Fills in a descriptor's defaults and refuses requests that make no sense, in it and in the
// arguments of a run; finds out what these say about each sequence of the batch; and names the
// options in force for HEED_VERBOSE.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/dense/operands.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

/// A field that makes sense only with another one, `with`, equal to `needed`, must be 0 elsewhere.
void check_unused(const char* field, std::int64_t value, const char* with, std::uint32_t is,
                  const char* needed, bool used) {
  if (!used && value != 0)
    refuse("desc.%s is %lld with desc.%s %u; it must be 0 unless %s is %s", field, lld(value), with,
           is, with, needed);
}

void fill_defaults(heed_attention_desc& desc) {
  if (desc.key_heads == 0) desc.key_heads = desc.query_heads;
  if (desc.value_features == 0) desc.value_features = desc.features;
}

void check_sizes(const heed_attention_desc& desc) {
  check_size("batch", desc.batch, 0);
  check_size("query_heads", desc.query_heads, 0);
  check_size("key_heads", desc.key_heads, 0);
  check_size("query_length", desc.query_length, 0);
  check_size("key_length", desc.key_length, 0);
  check_size("features", desc.features, 1);
  check_size("value_features", desc.value_features, 1);
  check_size("packed_queries", desc.packed_queries, 0);
  check_size("packed_keys", desc.packed_keys, 0);
  if (desc.query_heads % (desc.key_heads == 0 ? 1 : desc.key_heads) != 0)
    refuse("desc.query_heads is %lld; it must be a multiple of desc.key_heads, %lld",
           lld(desc.query_heads), lld(desc.key_heads));
  check_reserved("desc.reserved", desc.reserved);
}

/// Where keys and values lie in pages: p.pages, p.page_rows, p.table_stride.
void resolve_pages(const heed_attention_desc& desc, Problem& p) {
  check_size("pages", desc.pages, 0);
  if (desc.pages == 0) {
    check_zero("desc.page_rows", desc.page_rows, "with desc.pages 0");
    check_zero("desc.block_table_stride", desc.block_table_stride, "with desc.pages 0");
    return;
  }
  check_page_rows(desc.page_rows);
  if (desc.pages > INT32_MAX)
    refuse("desc.pages is %lld; it must be at most %d: entries of the block table are int32",
           lld(desc.pages), INT32_MAX);
  if (desc.packed_keys > 0)
    refuse("desc.packed_keys is %lld with desc.pages %lld; it must be 0: keys lie in pages",
           lld(desc.packed_keys), lld(desc.pages));
  const std::int64_t used = ceil_div(desc.key_length, desc.page_rows);
  if (desc.block_table_stride != 0) check_size("block_table_stride", desc.block_table_stride, used);
  p.pages = desc.pages;
  p.page_rows = desc.page_rows;
  const bool given = desc.block_table_stride != 0;
  p.table_stride = given ? desc.block_table_stride : used;
  (Size(desc.batch) * p.table_stride)
      .checked("the block table", {{"desc.batch", desc.batch},
                                   {given ? "desc.block_table_stride" : "desc.key_length",
                                    given ? desc.block_table_stride : desc.key_length}});
}

/// Whether the arithmetic is float64: where all four types are.
bool is_float64(const heed_attention_desc& desc) {
  const struct {
    const char* name;
    std::uint32_t dtype;
  } tensors[4] = {{"query", desc.query.dtype},
                  {"key", desc.key.dtype},
                  {"value", desc.value.dtype},
                  {"out", desc.out.dtype}};
  bool any = false;
  for (const auto& tensor : tensors) any = any || tensor.dtype == HEED_DTYPE_F64;
  for (const auto& tensor : tensors)
    if (any && tensor.dtype != HEED_DTYPE_F64)
      refuse("desc.%s.dtype is %u; it must be HEED_DTYPE_F64 (2) as that of another tensor is",
             tensor.name, tensor.dtype);
  return any;
}

/// The scales of the tensor `name`, "key" or "value": one per row, or one that all rows share.
Layout scale_layout(const char* name, const heed_layout& given, const heed_layout& of,
                    const Axes& axes) {
  char field[32];
  std::snprintf(field, sizeof field, "desc.%s_scales", name);
  if (of.dtype == HEED_DTYPE_I8) {
    if (given.dtype != HEED_DTYPE_DEFAULT && given.dtype != HEED_DTYPE_F32)
      refuse("%s.dtype is %u; it must be 0 or HEED_DTYPE_F32 (1)", field, given.dtype);
    return layout_of(field, given, axes.sizes,
                     {ElementType::kF32, false, axes.nesting == Nesting::kPackedRows});
  }
  if (!is_unset(given))
    refuse(
        "%s is set with desc.%s.dtype %u; it must be 0 unless that is HEED_DTYPE_I8 (5), which has "
        "a scale per row",
        field, name, of.dtype);
  return {ElementType::kF32, sizeof(float), {0, 0, 0, 0}};
}

/// Where positions count from: p.bottom_right, p.offset, p.offset_given.
void resolve_offset(const heed_attention_desc& desc, Problem& p) {
  check_choice("causal", desc.causal, "a heed_causal", HEED_CAUSAL_OFFSET);
  check_choice("alignment", desc.alignment, "a heed_alignment", HEED_ALIGNMENT_OFFSET);
  check_unused("causal_offset", desc.causal_offset, "causal", desc.causal, "HEED_CAUSAL_OFFSET (3)",
               desc.causal == HEED_CAUSAL_OFFSET);
  check_unused("alignment_offset", desc.alignment_offset, "alignment", desc.alignment,
               "HEED_ALIGNMENT_OFFSET (3)", desc.alignment == HEED_ALIGNMENT_OFFSET);
  if (desc.causal != HEED_CAUSAL_NONE && desc.alignment != HEED_ALIGNMENT_DEFAULT)
    refuse("desc.alignment is %u with desc.causal %u; it must be 0: causal says where rows stand",
           desc.alignment, desc.causal);
  // The two enums agree in what their values mean.
  const std::uint32_t choice = desc.causal != HEED_CAUSAL_NONE ? desc.causal : desc.alignment;
  p.bottom_right = choice == HEED_ALIGNMENT_BOTTOM_RIGHT;
  p.offset = desc.causal != HEED_CAUSAL_NONE ? desc.causal_offset : desc.alignment_offset;
  p.offset_given = choice != 0;
}

void resolve_window(const heed_attention_desc& desc, Problem& p) {
  check_choice("window", desc.window, "a switch", 1);
  check_unused("window_left", desc.window_left, "window", desc.window, "1", desc.window != 0);
  check_unused("window_right", desc.window_right, "window", desc.window, "1", desc.window != 0);
  const auto side = [](const char* field, std::int64_t value) {
    if (value < -1) refuse("desc.%s is %lld; it must be at least -1 (no bound)", field, lld(value));
    return value;
  };
  p.left = desc.window != 0 ? side("window_left", desc.window_left) : kUnbounded;
  p.right = desc.window != 0 ? side("window_right", desc.window_right) : kUnbounded;
  if (desc.causal != HEED_CAUSAL_NONE) p.right = 0;
  const bool bounded = p.left != kUnbounded || p.right != kUnbounded;
  if (bounded && !p.offset_given && p.query_length != p.key_length)
    refuse(
        "desc.alignment is 0 with desc.query_length %lld and desc.key_length %lld; a window over "
        "different lengths needs a heed_alignment, 1 to 3",
        lld(p.query_length), lld(p.key_length));
}

void resolve_outputs(const heed_attention_desc& desc, Problem& p) {
  check_choice("weights_point", desc.weights_point, "a heed_weights_point",
               HEED_WEIGHTS_PROBABILITIES);
  check_choice("sum_columns", desc.sum_columns, "a switch", 1);
  check_unused("weight_rows", desc.weight_rows, "weights_point", desc.weights_point, "1 to 4",
               desc.weights_point != HEED_WEIGHTS_NONE);
  if (desc.weight_rows < 0 || desc.weight_rows > desc.query_length)
    refuse("desc.weight_rows is %lld; it must be 0 to desc.query_length, %lld",
           lld(desc.weight_rows), lld(desc.query_length));
  p.weights_point = static_cast<heed_weights_point>(desc.weights_point);
  p.sum_columns = desc.sum_columns != 0;
  p.weight_rows = desc.weight_rows;
}

// ---- Arguments of a run -------------------------------------------------------------------------

/// Offsets of packed sequences: [batch + 1], growing from at least 0 to at most `total`, none of
/// them more than `longest` apart.
void check_offsets(const char* field, const std::int32_t* offsets, std::int64_t batch,
                   const char* total_field, std::int64_t total, const char* longest_field,
                   std::int64_t longest) {
  if (total == 0) return;
  if (offsets == nullptr)
    refuse("args.%s is NULL; desc.%s is %lld", field, total_field, lld(total));
  for (std::int64_t b = 0; b <= batch; ++b) {
    const std::int64_t low = b == 0 ? 0 : offsets[b - 1];
    const std::int64_t offset = offsets[b];
    if (offset < low || offset > total)
      refuse("args.%s[%lld] is %lld; it must be %lld to %lld", field, lld(b), lld(offset), lld(low),
             lld(total));
    if (b > 0 && offset - low > longest)
      refuse("args.%s[%lld] is %lld; that makes a sequence of %lld rows, and desc.%s is %lld",
             field, lld(b), lld(offset), lld(offset - low), longest_field, lld(longest));
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
  const auto check = [&](const char* field, const std::int32_t* keys, auto&& most_of) {
    for (std::int64_t b = 0; keys != nullptr && b < p.batch; ++b)
      if (const std::int64_t most = most_of(b); keys[b] < 0 || keys[b] > most)
        refuse("args.%s[%lld] is %d; it must be 0 to %lld", field, lld(b), keys[b], lld(most));
  };
  check("key_lengths", args.key_lengths, [&](std::int64_t b) { return keys_at_hand(p, args, b); });
  check("first_keys", args.first_keys,
        [&](std::int64_t b) { return sequence_of(p, args, b).key_length; });
}

/// The entries that sequences need. Entries past their lengths are not read.
void check_block_table(const Problem& p, const heed_attention_args& args) {
  if (p.pages == 0 || p.key_heads == 0) return;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t used = ceil_div(sequence_of(p, args, b).key_length, p.page_rows);
    if (used > 0 && args.block_table == nullptr)
      refuse("args.block_table is NULL; desc.pages is %lld", lld(p.pages));
    for (std::int64_t n = 0; n < used; ++n) {
      const std::int32_t page = args.block_table[b * p.table_stride + n];
      if (page < 0 || page >= p.pages)
        refuse("args.block_table[%lld][%lld] is %d; it must be 0 to %lld, for desc.pages", lld(b),
               lld(n), page, lld(p.pages - 1));
    }
  }
}

void check_weight_rows(const Problem& p, const std::int64_t* rows) {
  if ((rows != nullptr) != (p.weight_rows > 0))
    refuse("args.weight_rows is %s with desc.weight_rows %lld; both or neither list rows",
           rows == nullptr ? "NULL" : "given", lld(p.weight_rows));
  for (std::int64_t n = 0; n < p.weight_rows; ++n) {
    const std::int64_t low = n == 0 ? 0 : rows[n - 1] + 1;
    if (rows[n] < low || rows[n] >= p.query_length)
      refuse("args.weight_rows[%lld] is %lld; it must be %lld to %lld: rows increase", lld(n),
             lld(rows[n]), lld(low), lld(p.query_length - 1));
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
      refuse("%s[%lld] is %g; it must %s", field, lld(h), static_cast<double>(of[h]), bound);
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
    refuse(
        "args.alibi_slopes is given with desc.alignment 0, desc.query_length %lld and "
        "desc.key_length %lld; distances over different lengths need a heed_alignment, 1 to 3",
        lld(p.query_length), lld(p.key_length));
  check_seeds(p.dropout, args.dropout_seed, args.dropout_offset);
  check_origin(args.dropout_origin);
  if (args.score_function == nullptr && args.score_user != nullptr)
    refuse("args.score_user is given; it must be NULL without args.score_function");
}

// ---- Words for HEED_VERBOSE ---------------------------------------------------------------------

void add_types(const Problem& p, Text& text) {
  const ElementType types[4] = {p.query.type, p.key.type, p.value.type, p.out.type};
  bool plain = true;
  for (const ElementType type : types) plain = plain && type == ElementType::kF32;
  if (!plain)
    text.add(" %s,%s,%s->%s", name_of(types[0]), name_of(types[1]), name_of(types[2]),
             name_of(types[3]));
}

void add_positions(const Problem& p, Text& text) {
  // The offset of full-length sequences: at the bottom right shorter ones have their own.
  const std::int64_t offset = p.limits(p.query_length, p.key_length).offset;
  const bool causal = p.right == 0;
  if (causal) text.add(" causal");
  if (p.offset_given) text.add(causal ? "%+lld" : " offset=%lld", lld(offset));
  if (!causal && p.right != kUnbounded) text.add(" right=%lld", lld(p.right));
  if (p.left != kUnbounded) text.add(" left=%lld", lld(p.left));
}

}  // namespace

void check_page_rows(std::int64_t rows) {
  constexpr auto kStep = static_cast<std::int64_t>(StoredRows::kRunRows);
  check_size("page_rows", rows, kStep);
  if (rows % kStep != 0)
    refuse("desc.page_rows is %lld; it must be a multiple of %lld", lld(rows), lld(kStep));
}

Problem validate(const heed_attention_desc& given) {
  heed_attention_desc desc = given;
  fill_defaults(desc);
  check_sizes(desc);
  Problem p{};
  p.batch = desc.batch;
  p.query_heads = desc.query_heads;
  p.key_heads = desc.key_heads;
  p.query_length = desc.query_length;
  p.key_length = desc.key_length;
  p.features = desc.features;
  p.value_features = desc.value_features;
  p.packed_queries = desc.packed_queries;
  p.packed_keys = desc.packed_keys;
  resolve_pages(desc, p);
  p.float64 = is_float64(desc);
  static_cast<Scaling&>(p) = resolve_scaling(ScoreFields::of(desc), p.float64);
  p.dropout = resolve_dropout(desc.dropout, p.hard);
  resolve_offset(desc, p);
  resolve_window(desc, p);
  resolve_outputs(desc, p);
  resolve_layouts<kAttentionOperands>(&desc, p.float64, p);
  p.key_scales = scale_layout("key", desc.key_scales, desc.key, key_scale_axes(p));
  p.value_scales = scale_layout("value", desc.value_scales, desc.value, value_scale_axes(p));
  return p;
}

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
  s.first_attended = args.first_keys != nullptr ? args.first_keys[b] : 0;
  if (args.block_table != nullptr) s.pages = args.block_table + b * p.table_stride;
  s.page_rows = p.page_rows;
  s.limits = p.limits(s.query_length, s.key_length);
  return s;
}

Text sizes_of(const Problem& p) {
  Text text;
  text.add("B%lld H%lld Hkv%lld Lq%lld Lkv%lld D%lld Dv%lld", lld(p.batch), lld(p.query_heads),
           lld(p.key_heads), lld(p.query_length), lld(p.key_length), lld(p.features),
           lld(p.value_features));
  return text;
}

Text options_of(const Problem& p, const heed_attention_args& args) {
  Text text;
  add_types(p, text);
  add_positions(p, text);
  text.add_if(args.cu_seqlens_q != nullptr || args.cu_seqlens_k != nullptr, " packed");
  text.add_if(args.key_lengths != nullptr, " lengths");
  text.add_if(args.first_keys != nullptr, " first_keys");
  if (p.pages > 0) text.add(" pages=%lldx%lld", lld(p.pages), lld(p.page_rows));
  text.add_if(args.mask != nullptr, " mask");
  if (!p.is_dot()) text.add(" score=%d act=%d", p.score, p.activation);
  if (p.softcap > 0) text.add(" softcap=%g", p.softcap);
  text.add_if(args.alibi_slopes != nullptr, " alibi");
  text.add_if(args.bias != nullptr, " bias");
  text.add_if(args.score_function != nullptr, " function");
  if (p.temperature != 1) text.add(" temperature=%g", p.temperature);
  text.add_if(p.hard, " hard");
  if (p.dropout > 0) text.add(" dropout=%u/%u", p.dropout, kDropoutValues);
  text.add_if(args.sinks != nullptr, " sinks");
  text.add_if(args.lse != nullptr, " lse");
  if (p.weights_point != HEED_WEIGHTS_NONE)
    text.add(" weights=%d", static_cast<int>(p.weights_point));
  text.add_if(p.sum_columns, " columns");
  return text;
}

}  // namespace heed
