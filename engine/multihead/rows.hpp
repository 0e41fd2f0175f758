// Which rows of a block's tensors belong to sequences.
#pragma once

#include <cstdint>

#include "engine/dense/problem.hpp"
#include "engine/projection/rows.hpp"

namespace heed {

/// The rows of an input or output that belong to a sequence, numbered through. Packed rows before
/// the first sequence or after the last belong to none: they are neither read nor written.
struct Rows {
  std::int64_t begin;
  std::int64_t count;
  std::int64_t per_batch;

  InputRows input(const void* data, const Layout& layout) const {
    return {row_at(data, layout, 0, 0, begin), layout, per_batch};
  }
  /// Rows of all heads, one after the other.
  OutputRows output(void* data, const Layout& layout, std::int64_t per_head) const {
    return {row_at(data, layout, 0, 0, begin), layout, per_batch, per_head};
  }
};

inline Rows rows_of(std::int64_t batch, const std::int32_t* offsets, std::int64_t packed,
                    std::int64_t length) {
  if (packed == 0) return {0, batch * length, length};
  const std::int64_t count = offsets[batch] - offsets[0];
  return {count > 0 ? offsets[0] : 0, count, packed};
}
inline Rows query_rows_of(const Problem& p, const heed_attention_args& args) {
  return rows_of(p.batch, args.cu_seqlens_q, p.packed_queries, p.query_length);
}
inline Rows key_rows_of(const Problem& p, const heed_attention_args& args) {
  return rows_of(p.batch, args.cu_seqlens_k, p.packed_keys, p.key_length);
}

}  // namespace heed
