#include "tests/oracle/inputs.hpp"

#include <algorithm>

namespace heed_test {
namespace {

Index offset_of(const heed_attention_desc& desc, Index queries, Index keys) {
  const bool causal = desc.causal != HEED_CAUSAL_NONE;
  const std::uint32_t alignment = causal ? desc.causal : desc.alignment;  // the same numbers
  if (alignment == HEED_ALIGNMENT_BOTTOM_RIGHT) return keys - queries;
  if (alignment == HEED_ALIGNMENT_OFFSET)
    return causal ? desc.causal_offset : desc.alignment_offset;
  return 0;
}

}  // namespace

Source source_of(const void* data, const heed_layout& layout, Index heads, Index rows,
                 Index features, bool packed) {
  Strides strides = {layout.stride_batch, layout.stride_head, layout.stride_row,
                     layout.stride_feature};
  if (strides.all_zero() && layout.reserved == HEED_STRIDES_DEFAULT)
    strides = packed ? Strides{0, features, heads * features, 1}
                     : Strides{heads * rows * features, rows * features, features, 1};
  if (packed) strides.batch = 0;
  return {data, dtype_of(layout.dtype, HEED_DTYPE_F32), strides};
}

Source source_of(const void* data, const heed_score_layout& layout, std::uint32_t dtype,
                 const heed_attention_desc& desc) {
  const Index batch = layout.batch == 0 ? desc.batch : layout.batch;
  const Index heads = layout.heads == 0 ? desc.query_heads : layout.heads;
  const Index rows = layout.rows == 0 ? desc.query_length : layout.rows;
  const Index keys = layout.keys == 0 ? desc.key_length : layout.keys;
  Strides strides = {layout.stride_batch, layout.stride_head, layout.stride_row, layout.stride_key};
  if (strides.all_zero() && layout.reserved == HEED_STRIDES_DEFAULT)
    strides = {heads * rows * keys, rows * keys, keys, 1};
  if (batch == 1) strides.batch = 0;
  if (heads == 1) strides.head = 0;
  if (rows == 1) strides.row = 0;
  if (keys == 1) strides.feature = 0;
  return {data, dtype, strides};
}

Sequence sequence_of(const heed_attention_desc& desc, const heed_attention_args& args, Index b) {
  Sequence s = {b, 0, desc.query_length, 0, desc.key_length, 0};
  if (desc.packed_queries > 0) {
    s.first_query = args.cu_seqlens_q[b];
    s.queries = args.cu_seqlens_q[b + 1] - s.first_query;
  }
  if (desc.packed_keys > 0) {
    s.first_key = args.cu_seqlens_k[b];
    s.keys = args.cu_seqlens_k[b + 1] - s.first_key;
  }
  if (args.key_lengths != nullptr) s.keys = args.key_lengths[b];
  s.offset = offset_of(desc, s.queries, s.keys);
  s.page_rows = desc.page_rows;
  if (desc.pages > 0 && args.block_table != nullptr)
    s.pages = args.block_table + b * block_table_stride_of(desc);
  return s;
}

Index block_table_width_of(const heed_attention_desc& desc) {
  return desc.pages > 0 ? (desc.key_length + desc.page_rows - 1) / desc.page_rows : 0;
}

Index block_table_stride_of(const heed_attention_desc& desc) {
  return desc.block_table_stride != 0 ? desc.block_table_stride : block_table_width_of(desc);
}

bool in_window(const heed_attention_desc& desc, const Sequence& s, Index i, Index j) {
  if (desc.causal == HEED_CAUSAL_NONE && desc.window == 0) return true;
  // Integers up to 2^64 are exact in it, and greater ones greater than every key.
  const long double p = static_cast<long double>(s.offset) + static_cast<long double>(i);
  const auto key = static_cast<long double>(j);
  if (desc.causal != HEED_CAUSAL_NONE && key > p) return false;
  if (desc.window == 0) return true;
  if (desc.window_left >= 0 && key < p - static_cast<long double>(desc.window_left)) return false;
  return desc.window_right < 0 || key <= p + static_cast<long double>(desc.window_right);
}

Index attended(const heed_attention_desc& desc, Index i) {
  const Index offset = offset_of(desc, desc.query_length, desc.key_length);
  const Sequence s = {0, 0, desc.query_length, 0, desc.key_length, offset};
  Index count = 0;
  for (Index j = 0; j < s.keys; ++j) count += in_window(desc, s, i, j) ? 1 : 0;
  return count;
}

}  // namespace heed_test
