// A problem with one of everything, to be made wrong in one way, and what a refusal must leave.
#pragma once

#include <functional>

#include "tests/api/bytes.hpp"
#include "tests/api/fields.hpp"
#include "tests/api/support.hpp"

namespace api_test {

/// A problem with one of everything: [2, 4, 3, 4] queries, [2, 2, 5, 4] keys, values of 6 features.
struct Form {
  Form() {
    desc.batch = 2;
    desc.query_heads = 4;
    desc.key_heads = 2;
    desc.query_length = 3;
    desc.key_length = 5;
    desc.features = 4;
    desc.value_features = 6;
    desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    desc.weights_point = HEED_WEIGHTS_PROBABILITIES;
    desc.weight_rows = 2;
    desc.sum_columns = 1;
    args.query = query.at();
    args.key = key.at();
    args.value = value.at();
    args.out = out.at();
    args.mask = static_cast<std::uint8_t*>(mask.at());
    args.bias = bias.at();
    args.key_lengths = key_lengths;
    args.alibi_slopes = slopes.at();
    args.sinks = sinks.at();
    args.weight_rows = weight_rows;
    args.lse = lse.at();
    args.weights = weights.at();
    args.column_sums = column_sums.at();
  }
  Form(const Form&) = delete;  // its arguments point into it
  Form& operator=(const Form&) = delete;

  void pack_queries() {
    desc.packed_queries = 6;
    args.cu_seqlens_q = cu_seqlens_q;
  }
  void pack_keys() {
    desc.packed_keys = 10;
    args.cu_seqlens_k = cu_seqlens_k;
  }
  void page() {
    desc.pages = 3;
    desc.page_rows = 16;
    args.block_table = block_table;
  }
  void all_float64() {
    desc.query.dtype = desc.key.dtype = desc.value.dtype = desc.out.dtype = HEED_DTYPE_F64;
  }
  void all_16_bits() {
    desc.query.dtype = desc.key.dtype = desc.value.dtype = desc.out.dtype = HEED_DTYPE_F16;
    desc.bias.dtype = desc.weights.dtype = desc.column_sums.dtype = HEED_DTYPE_BF16;
  }
  /// Keys of 8 bits with a scale per row, values of 8 bits with one for all.
  void store_8_bits() {
    desc.key.dtype = HEED_DTYPE_I8;
    desc.value.dtype = HEED_DTYPE_F8_E4M3;
    args.key_scales = static_cast<float*>(key_scales.at());
    args.value_scales = static_cast<float*>(value_scales.at());
  }
  /// Without what hard attention must not have.
  void be_hard() {
    desc.hard = 1;
    args.sinks = args.lse = nullptr;
  }

  bool outputs_untouched() const {
    return out.all_are(kPattern) && lse.all_are(kPattern) && weights.all_are(kPattern) &&
           column_sums.all_are(kPattern);
  }

  heed_attention_desc desc = HEED_ATTENTION_DESC_INIT;
  heed_attention_args args = HEED_ATTENTION_ARGS_INIT;
  Bytes query, key, value, mask{1}, bias, slopes, sinks, key_scales, value_scales;
  Bytes out{kPattern}, lse{kPattern}, weights{kPattern}, column_sums{kPattern};
  std::int32_t key_lengths[2] = {5, 2};
  std::int32_t cu_seqlens_q[3] = {0, 3, 5};
  std::int32_t cu_seqlens_k[3] = {1, 6, 10};
  std::int32_t block_table[2] = {2, 0};
  std::int64_t weight_rows[2] = {0, 2};
};

using Change = std::function<void(Form&)>;

inline Fields fields_of(Form& form) {
  Fields fields;
  heed_attention_desc& d = form.desc;
  heed_attention_args& a = form.args;
  add(fields.in("desc."), d);
  fields("query", d.query)("key", d.key)("value", d.value)("out", d.out);
  if (d.key.dtype == HEED_DTYPE_I8) fields("key_scales", d.key_scales);
  if (d.value.dtype == HEED_DTYPE_I8) fields("value_scales", d.value_scales);
  add(fields.in("args."), a);
  fields("query", a.query)("key", a.key)("value", a.value)("out", a.out)(
      "key_lengths", form.key_lengths)("cu_seqlens_q", form.cu_seqlens_q)(
      "cu_seqlens_k", form.cu_seqlens_k)("block_table", form.block_table)("weight_rows",
                                                                          form.weight_rows);
  return fields;
}

}  // namespace api_test
