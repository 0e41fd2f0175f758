#include <cstdio>

#include "engine/dense/operands.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

/// A field that makes sense only with another one, `with`, equal to `needed`, must be 0 elsewhere.
void check_unused(const char* field, std::int64_t value, const char* with, std::uint32_t is,
                  const char* needed, bool used) {
  if (!used && value != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.%s is %lld with desc.%s %u; it must be 0 unless %s is %s", field,
         static_cast<long long>(value), with, is, with, needed);
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
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.query_heads is %lld; it must be a multiple of desc.key_heads, %lld",
         static_cast<long long>(desc.query_heads), static_cast<long long>(desc.key_heads));
  check_reserved("desc.reserved", desc.reserved);
}

/// Where keys and values lie in pages: p.pages, p.page_rows, p.table_stride.
void resolve_pages(const heed_attention_desc& desc, Problem& p) {
  check_size("pages", desc.pages, 0);
  if (desc.pages == 0) {
    const auto refuse = [](const char* field, std::int64_t value) {
      if (value != 0)
        fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s is %lld; it must be 0 with desc.pages 0", field,
             static_cast<long long>(value));
    };
    refuse("page_rows", desc.page_rows);
    refuse("block_table_stride", desc.block_table_stride);
    return;
  }
  check_page_rows(desc.page_rows);
  if (desc.pages > INT32_MAX)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.pages is %lld; it must be at most %d: entries of the block table are int32",
         static_cast<long long>(desc.pages), INT32_MAX);
  if (desc.packed_keys > 0)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.packed_keys is %lld with desc.pages %lld; it must be 0: keys lie in pages",
         static_cast<long long>(desc.packed_keys), static_cast<long long>(desc.pages));
  const std::int64_t used = ceil_div(desc.key_length, desc.page_rows);
  if (desc.block_table_stride != 0) check_size("block_table_stride", desc.block_table_stride, used);
  p.pages = desc.pages;
  p.page_rows = desc.page_rows;
  const bool given = desc.block_table_stride != 0;
  p.table_stride = given ? desc.block_table_stride : used;
  const Size::Field field = {given ? "desc.block_table_stride" : "desc.key_length",
                             given ? desc.block_table_stride : desc.key_length};
  (Size(desc.batch) * p.table_stride)
      .checked("the block table", {{"desc.batch", desc.batch}, field});
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
  int count = 0;
  for (const auto& tensor : tensors) count += tensor.dtype == HEED_DTYPE_F64 ? 1 : 0;
  if (count != 0 && count != 4) {
    for (const auto& tensor : tensors)
      if (tensor.dtype != HEED_DTYPE_F64)
        fail(HEED_STATUS_INVALID_ARGUMENT,
             "desc.%s.dtype is %u; it must be HEED_DTYPE_F64 (2) as that of another tensor is",
             tensor.name, tensor.dtype);
  }
  return count == 4;
}

/// The scales of the tensor `name`, "key" or "value": one per row, or one that all rows share.
Layout scale_layout(const char* name, const heed_layout& given, const heed_layout& of,
                    const Axes& axes) {
  char field[32];
  std::snprintf(field, sizeof field, "desc.%s_scales", name);
  if (of.dtype == HEED_DTYPE_I8) {
    if (given.dtype != HEED_DTYPE_DEFAULT && given.dtype != HEED_DTYPE_F32)
      fail(HEED_STATUS_INVALID_ARGUMENT, "%s.dtype is %u; it must be 0 or HEED_DTYPE_F32 (1)",
           field, given.dtype);
    return input_layout(field, given, axes.sizes, ElementType::kF32,
                        axes.nesting == Nesting::kPackedRows);
  }
  if (!is_unset(given))
    fail(
        HEED_STATUS_INVALID_ARGUMENT,
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
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.alignment is %u with desc.causal %u; it must be 0: causal says where rows stand",
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
    if (value < -1)
      fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s is %lld; it must be at least -1 (no bound)",
           field, static_cast<long long>(value));
    return value;
  };
  p.left = desc.window != 0 ? side("window_left", desc.window_left) : kUnbounded;
  p.right = desc.window != 0 ? side("window_right", desc.window_right) : kUnbounded;
  if (desc.causal != HEED_CAUSAL_NONE) p.right = 0;
  const bool bounded = p.left != kUnbounded || p.right != kUnbounded;
  if (bounded && !p.offset_given && p.query_length != p.key_length)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.alignment is 0 with desc.query_length %lld and desc.key_length %lld; a window over "
         "different lengths needs a heed_alignment, 1 to 3",
         static_cast<long long>(p.query_length), static_cast<long long>(p.key_length));
}

void resolve_outputs(const heed_attention_desc& desc, Problem& p) {
  check_choice("weights_point", desc.weights_point, "a heed_weights_point",
               HEED_WEIGHTS_PROBABILITIES);
  check_choice("sum_columns", desc.sum_columns, "a switch", 1);
  check_unused("weight_rows", desc.weight_rows, "weights_point", desc.weights_point, "1 to 4",
               desc.weights_point != HEED_WEIGHTS_NONE);
  if (desc.weight_rows < 0 || desc.weight_rows > desc.query_length)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.weight_rows is %lld; it must be 0 to desc.query_length, %lld",
         static_cast<long long>(desc.weight_rows), static_cast<long long>(desc.query_length));
  p.weights_point = static_cast<heed_weights_point>(desc.weights_point);
  p.sum_columns = desc.sum_columns != 0;
  p.weight_rows = desc.weight_rows;
}

}  // namespace

void check_page_rows(std::int64_t rows) {
  constexpr auto kStep = static_cast<std::int64_t>(StoredRows::kRunRows);
  check_size("page_rows", rows, kStep);
  if (rows % kStep != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.page_rows is %lld; it must be a multiple of %lld",
         static_cast<long long>(rows), static_cast<long long>(kStep));
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
  static_cast<Scaling&>(p) = resolve_scaling(desc.scale, desc.softcap, desc.temperature, desc.hard,
                                             desc.features, p.float64);
  resolve_offset(desc, p);
  resolve_window(desc, p);
  resolve_outputs(desc, p);
  resolve_layouts<kAttentionOperands>(&desc, p.float64, p);
  p.key_scales = scale_layout("key", desc.key_scales, desc.key, key_scale_axes(p));
  p.value_scales = scale_layout("value", desc.value_scales, desc.value, value_scale_axes(p));
  return p;
}

}  // namespace heed
