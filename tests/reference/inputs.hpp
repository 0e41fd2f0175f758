// What a descriptor and arguments mean: where elements lie, how long sequences are, and which
// keys a row attends.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "api/heed.h"
#include "tests/support/dtype.hpp"

namespace heed_test {

using Index = std::int64_t;

struct Strides {
  Index batch, head, row, feature;

  bool all_zero() const { return batch == 0 && head == 0 && row == 0 && feature == 0; }
};

/// A tensor where it lies.
struct Source {
  const void* data;
  std::uint32_t dtype;
  Strides strides;

  double at(Index b, Index h, Index i, Index x) const {
    const Index index =
        b * strides.batch + h * strides.head + i * strides.row + x * strides.feature;
    return decode(dtype, load_bits(dtype, data, index));
  }
};

inline std::uint32_t dtype_of(std::uint32_t dtype, std::uint32_t default_dtype) {
  return dtype == HEED_DTYPE_DEFAULT ? default_dtype : dtype;
}

/// A query, key or value of `rows` rows; packed: [row, head, feature].
inline Source source_of(const void* data, const heed_layout& layout, Index heads, Index rows,
                        Index features, bool packed) {
  Strides strides = {layout.stride_batch, layout.stride_head, layout.stride_row,
                     layout.stride_feature};
  if (strides.all_zero())
    strides = packed ? Strides{0, features, heads * features, 1}
                     : Strides{heads * rows * features, rows * features, features, 1};
  if (packed) strides.batch = 0;
  return {data, dtype_of(layout.dtype, HEED_DTYPE_F32), strides};
}

/// A mask or bias; an axis of size 1 repeats its one element.
inline Source source_of(const void* data, const heed_score_layout& layout, std::uint32_t dtype,
                        const heed_attention_desc& desc) {
  const Index batch = layout.batch == 0 ? desc.batch : layout.batch;
  const Index heads = layout.heads == 0 ? desc.query_heads : layout.heads;
  const Index rows = layout.rows == 0 ? desc.query_length : layout.rows;
  const Index keys = layout.keys == 0 ? desc.key_length : layout.keys;
  Strides strides = {layout.stride_batch, layout.stride_head, layout.stride_row, layout.stride_key};
  if (strides.all_zero()) strides = {heads * rows * keys, rows * keys, keys, 1};
  if (batch == 1) strides.batch = 0;
  if (heads == 1) strides.head = 0;
  if (rows == 1) strides.row = 0;
  if (keys == 1) strides.feature = 0;
  return {data, dtype, strides};
}

inline bool is_float64(const heed_attention_desc& desc) {
  return desc.query.dtype == HEED_DTYPE_F64;
}

/// The type of the arithmetic.
inline std::uint32_t real_dtype(const heed_attention_desc& desc) {
  return is_float64(desc) ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}

inline Index key_heads_of(const heed_attention_desc& desc) {
  return desc.key_heads == 0 ? desc.query_heads : desc.key_heads;
}

inline Index value_features_of(const heed_attention_desc& desc) {
  return desc.value_features == 0 ? desc.features : desc.value_features;
}

/// Rows of weights.
inline Index weight_rows_of(const heed_attention_desc& desc) {
  return desc.weight_rows == 0 ? desc.query_length : desc.weight_rows;
}

/// One item of the batch: which rows of the query and key tensors are its own.
struct Sequence {
  Index batch;        ///< 0 in packed tensors: their strides do not count it
  Index first_query;  ///< 0 unless packed
  Index queries;
  Index first_key;
  Index keys;
  Index offset;  ///< query row i stands at position i + offset among the keys
};

/// Offsets past all lengths mean the same as this one.
inline constexpr Index kFar = Index{1} << 50;

inline Index offset_of(const heed_attention_desc& desc, Index queries, Index keys) {
  const bool causal = desc.causal != HEED_CAUSAL_NONE;
  const std::uint32_t alignment = causal ? desc.causal : desc.alignment;  // the same numbers
  if (alignment == HEED_ALIGNMENT_BOTTOM_RIGHT) return keys - queries;
  if (alignment == HEED_ALIGNMENT_OFFSET)
    return std::clamp(causal ? desc.causal_offset : desc.alignment_offset, -kFar, kFar);
  return 0;
}

inline Sequence sequence_of(const heed_attention_desc& desc, const heed_attention_args& args,
                            Index b) {
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
  return s;
}

/// Whether causal and window let row i attend key j.
inline bool in_window(const heed_attention_desc& desc, const Sequence& s, Index i, Index j) {
  const Index p = i + s.offset;
  if (desc.causal != HEED_CAUSAL_NONE && j > p) return false;
  if (desc.window == 0) return true;
  if (desc.window_left >= 0 && j < p - std::min(desc.window_left, 4 * kFar)) return false;
  return desc.window_right < 0 || j <= p + std::min(desc.window_right, 4 * kFar);
}

/// How many keys row i of a problem without masks, windows and lengths attends.
inline Index attended(const heed_attention_desc& desc, Index i) {
  const Sequence s = sequence_of(desc, HEED_ATTENTION_ARGS_INIT, 0);
  Index count = 0;
  for (Index j = 0; j < s.keys; ++j) count += in_window(desc, s, i, j) ? 1 : 0;
  return count;
}

/// Some rows of one head, widened, and how far off heed's may be where it has computed them itself.
template <class Wide>
struct Matrix {
  Index columns;
  std::vector<Wide> numbers;
  std::vector<Wide> errors = {};  ///< empty: exact

  bool exact() const { return errors.empty(); }
  const Wide* row(Index i) const { return numbers.data() + i * columns; }
  const Wide* errors_of(Index i) const { return errors.data() + i * columns; }
  Wide error(Index i, Index x) const { return exact() ? 0 : errors_of(i)[x]; }
};

/// Queries, keys or values that are not given but computed: [row, head, feature] of `columns`
/// columns, the rows of all batches one after the other.
using Computed = Matrix<long double>;

template <class Wide>
Matrix<Wide> rows_of(const Source& from, Index b, Index h, Index first, Index rows, Index columns) {
  Matrix<Wide> matrix{columns, {}};
  matrix.numbers.reserve(static_cast<std::size_t>(rows * columns));
  for (Index i = 0; i < rows; ++i)
    for (Index x = 0; x < columns; ++x)
      matrix.numbers.push_back(static_cast<Wide>(from.at(b, h, first + i, x)));
  return matrix;
}

template <class Wide>
Matrix<Wide> rows_of(const Computed& from, Index first, Index rows, Index first_column,
                     Index columns) {
  Matrix<Wide> matrix{columns, {}};
  for (Index i = first; i < first + rows; ++i)
    for (Index x = first_column; x < first_column + columns; ++x) {
      matrix.numbers.push_back(static_cast<Wide>(from.row(i)[x]));
      matrix.errors.push_back(static_cast<Wide>(from.error(i, x)));
    }
  return matrix;
}

}  // namespace heed_test
