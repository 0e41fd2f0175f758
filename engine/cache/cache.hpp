// A cache of keys and values: what it holds, and where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "api/heed.h"
#include "engine/cache/pages.hpp"
#include "engine/cache/problem.hpp"
#include "engine/context/context.hpp"

namespace heed {

/// Room for one sequence.
struct Slot {
  heed_sequence id;        ///< 0: free
  std::int64_t next_free;  ///< of a free slot
  std::int64_t pages;
  std::int32_t last;     ///< of its pages
  bool changing;         ///< some call changes it
  std::int64_t readers;  ///< calls that read it
};

}  // namespace heed

/// The C API's opaque type, at the beginning of all its memory.
///
/// The mutex guards pages and slots. It is held for moments, never while rows are read or written:
/// a call marks the slots that it needs (see Use). Lengths belong to whoever has marked their slot.
struct heed_cache {
  const heed_context* context;
  heed::CacheProblem problem;
  heed::PageTree pages;
  heed::Slot* slots;
  std::int32_t* lengths;
  double* frequencies;               ///< see fill_frequencies(); nullptr: nothing needs them
  std::int64_t first_free_slot = 0;  ///< problem.sequences: none
  std::int64_t alive = 0;            ///< sequences
  mutable std::mutex mutex = {};

  heed_cache(const heed_context& of, const heed::CacheProblem& checked);
  heed_cache(const heed_cache&) = delete;
  heed_cache& operator=(const heed_cache&) = delete;

  std::byte* memory(std::size_t offset) const {
    return reinterpret_cast<std::byte*>(const_cast<heed_cache*>(this)) + offset;
  }
  std::byte* pool(const heed::Storage& stored, std::int64_t layer) const {
    return memory(stored.pools + static_cast<std::size_t>(layer) * stored.pool_bytes);
  }
  /// Row t of a sequence and head, in the page that it lies in; the page's other rows are row_bytes
  /// apart.
  std::byte* row(const heed::Storage& stored, std::int64_t layer, std::int64_t page,
                 std::int64_t head, std::int64_t t) const {
    return pool(stored, layer) +
           static_cast<std::size_t>(row_in_pool(page, head, t)) * stored.row_bytes;
  }
  float* scales(const heed::Storage& stored, std::int64_t layer) const {
    return reinterpret_cast<float*>(
        memory(stored.scales + static_cast<std::size_t>(layer) * stored.scales_bytes));
  }
  /// Row t's; those of the page's other rows are side by side.
  float* scale(const heed::Storage& stored, std::int64_t layer, std::int64_t page,
               std::int64_t head, std::int64_t t) const {
    return scales(stored, layer) + row_in_pool(page, head, t);
  }
  /// The rows that a sequence has in each layer.
  std::int32_t* lengths_of(std::int64_t slot) const { return lengths + slot * problem.layers; }

 private:
  std::int64_t row_in_pool(std::int64_t page, std::int64_t head, std::int64_t t) const {
    return (page * problem.key_heads + head) * problem.page_rows + t % problem.page_rows;
  }
};

namespace heed {

heed_cache* make_cache(const heed_context& context, const heed_cache_desc& desc);
void destroy_cache(heed_cache* cache) noexcept;
heed_cache_info describe(const heed_cache& cache);

}  // namespace heed
