// The loop over edges that every instruction set's gather shares, compiled for each of them: so,
// as in engine/kernels/, everything here has internal linkage and no library is used.
#pragma once

#include "perf/peak/table.hpp"

namespace heed::perf {
namespace {

[[gnu::always_inline]] inline void prefetch_row(const char* row, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(row + at);
}

/// The sums of all keys and of all values, by add_row(sum, row, bytes). Keys and values have sums
/// of their own, so that one does not wait for the other.
template <class Bits, class AddRow>
[[gnu::always_inline]] inline void gather_rows(const GatherRows& rows, std::int64_t first,
                                               std::int64_t last, Bits& keys, Bits& values,
                                               AddRow&& add_row) {
  for (std::int64_t e = first; e < last; ++e) {
    if (e + kGatherAhead < rows.end) {
      const auto next = static_cast<std::size_t>(rows.sources[e + kGatherAhead]);
      prefetch_row(rows.key + next * rows.key_bytes, rows.key_bytes);
      prefetch_row(rows.value + next * rows.value_bytes, rows.value_bytes);
    }
    const auto row = static_cast<std::size_t>(rows.sources[e]);
    keys = add_row(keys, rows.key + row * rows.key_bytes, rows.key_bytes);
    values = add_row(values, rows.value + row * rows.value_bytes, rows.value_bytes);
  }
}

}  // namespace
}  // namespace heed::perf
