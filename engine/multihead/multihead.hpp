// A multi-head block from a checked descriptor to its output: the whole path on one screen.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/multihead/plan.hpp"
#include "engine/projection/rows.hpp"

namespace heed {

/// The rows of an input or output that belong to a sequence, numbered through. Packed rows before
/// the first sequence or after the last belong to none: they are neither read nor written.
struct SequenceRows {
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

inline SequenceRows rows_of(std::int64_t batch, const std::int32_t* offsets, std::int64_t packed,
                            std::int64_t length) {
  if (packed == 0) return {0, batch * length, length};
  const std::int64_t count = offsets[batch] - offsets[0];
  return {count > 0 ? offsets[0] : 0, count, packed};
}
inline SequenceRows query_rows_of(const Problem& p, const heed_attention_args& args) {
  return rows_of(p.batch, args.cu_seqlens_q, p.packed_queries, p.query_length);
}
inline SequenceRows key_rows_of(const Problem& p, const heed_attention_args& args) {
  return rows_of(p.batch, args.cu_seqlens_k, p.packed_keys, p.key_length);
}

/// The arguments of the attention inside, whose tensors lie in the workspace or in what is kept.
heed_attention_args placed_arguments(const heed_multihead_plan& plan,
                                     const heed_multihead_args& args, std::byte* tensors);

/// Throws an Error unless all arguments make sense. Returns those of the attention inside.
heed_attention_args checked_arguments(const heed_multihead_plan& plan,
                                      const heed_multihead_args& args, std::byte* workspace);

/// All of a run but combining the heads, with arguments that are checked.
void project_and_attend(const heed_multihead_plan& plan, const heed_multihead_args& args,
                        const heed_attention_args& attention, std::byte* workspace,
                        std::byte* tensors);

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_multihead_plan& plan, const heed_multihead_args& args, void* workspace,
              std::size_t bytes);

/// HEED_VERBOSE=1: one line on stderr for a run that took `seconds`.
void print_run(const heed_multihead_plan& plan, const heed_multihead_args& args,
               double seconds) noexcept;

}  // namespace heed
