// What a descriptor and arguments mean: where elements lie, how long sequences are, and which
// keys a row attends.
#pragma once

#include <cstdint>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/dtype.hpp"
#include "tests/oracle/rounding.hpp"

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
Source source_of(const void* data, const heed_layout& layout, Index heads, Index rows,
                 Index features, bool packed);

/// A mask or bias; an axis of size 1 repeats its one element.
Source source_of(const void* data, const heed_score_layout& layout, std::uint32_t dtype,
                 const heed_attention_desc& desc);

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

/// The scale of either kind of attention.
template <class Wide, class Desc>
Wide scale_of(const Desc& desc) {
  if (desc.scale != 0) return static_cast<Wide>(desc.scale);
  return desc.score != HEED_SCORE_DOT ? 1 : 1 / std::sqrt(static_cast<Wide>(desc.features));
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
  const std::int32_t* pages = nullptr;  ///< that its keys lie in, if in pages at all
  Index page_rows = 0;
};

Sequence sequence_of(const heed_attention_desc& desc, const heed_attention_args& args, Index b);

/// Pages of the longest sequence, and from one sequence's entries of the block table to the next's.
Index block_table_width_of(const heed_attention_desc& desc);
Index block_table_stride_of(const heed_attention_desc& desc);

/// Rows of the key and value tensors of a batch that is not packed: a page's, or the longest
/// sequence's.
inline Index key_rows_of(const heed_attention_desc& desc) {
  return desc.pages > 0 ? desc.page_rows : desc.key_length;
}

/// Where a row lies in a tensor.
struct RowPlace {
  Index batch;  ///< or the page
  Index row;
};

/// Where key t of a sequence lies.
inline RowPlace key_row(const Sequence& s, Index t) {
  if (s.pages == nullptr) return {s.batch, s.first_key + t};
  return {s.pages[t / s.page_rows], t % s.page_rows};
}

/// Whether causal and window let row i attend key j.
bool in_window(const heed_attention_desc& desc, const Sequence& s, Index i, Index j);

/// How many keys row i of a problem without masks, windows and lengths attends.
Index attended(const heed_attention_desc& desc, Index i);

/// Rows, widened, and how far off heed's may be where it has computed them itself.
template <class Wide>
struct BoundedRows {
  Index columns;
  std::vector<Bounded<Wide>> numbers = {};

  Index rows() const { return static_cast<Index>(numbers.size()) / columns; }
  Bounded<Wide>* row(Index i) { return numbers.data() + i * columns; }
  const Bounded<Wide>* row(Index i) const { return numbers.data() + i * columns; }
};

/// Queries, keys or values that are not given but computed: [row, head, feature] of `columns`
/// columns, the rows of all batches one after the other.
using Computed = BoundedRows<long double>;

/// Rows of head h, each where place(i) says.
template <class Wide, class Place>
BoundedRows<Wide> rows_of(const Source& from, Index h, Index rows, Index columns, Place&& place) {
  BoundedRows<Wide> all{columns};
  all.numbers.reserve(static_cast<std::size_t>(rows * columns));
  for (Index i = 0; i < rows; ++i) {
    const RowPlace at = place(i);
    for (Index x = 0; x < columns; ++x)
      all.numbers.push_back({static_cast<Wide>(from.at(at.batch, h, at.row, x)), 0});
  }
  return all;
}

template <class Wide>
BoundedRows<Wide> rows_of(const Source& from, Index b, Index h, Index first, Index rows,
                          Index columns) {
  return rows_of<Wide>(from, h, rows, columns, [&](Index i) { return RowPlace{b, first + i}; });
}

template <class Wide>
BoundedRows<Wide> rows_of(const Computed& from, Index first, Index rows, Index first_column,
                          Index columns) {
  BoundedRows<Wide> all{columns};
  for (Index i = first; i < first + rows; ++i)
    for (Index x = first_column; x < first_column + columns; ++x) {
      const Bounded<long double>& number = from.row(i)[x];
      all.numbers.push_back({static_cast<Wide>(number.value), static_cast<Wide>(number.bound)});
    }
  return all;
}

/// To bfloat16: past its largest number one counts as that, off by less than 2^-8 of itself;
/// subnormal numbers count as 0.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
void round_to_bfloat16(BoundedRows<Wide>& rows) {
  const auto unit = static_cast<Wide>(format_of(HEED_DTYPE_BF16).unit);
  for (Bounded<Wide>& x : rows.numbers)
    x.bound = std::isfinite(x.value) ? unit * std::fabs(x.value) + Arithmetic<Real>::kSmallest : 0;
}

}  // namespace heed_test
