// A cache of keys and values: its contents, and where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "api/heed.h"
#include "engine/context/context.hpp"
#include "engine/dense/rotate.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {

// ---- A descriptor, checked, and where all that a cache holds lies in its memory ----------------

/// Keys or values as they are stored: a pool [pages, key_heads, page_rows, features] per layer. A
/// head's rows of a page lie side by side: of all orders this is the fastest to read.
struct Storage {
  std::int64_t features;
  std::size_t row_bytes;
  std::size_t pools;         ///< where layer 0's pool lies
  std::size_t pool_bytes;    ///< from one layer's pool to the next
  std::size_t scales;        ///< likewise of int8 rows: float32 [pages, key_heads, page_rows]
  std::size_t scales_bytes;  ///< 0: rows have no scales
  float scale;               ///< of all rows, E4M3
};

struct CacheProblem {
  ElementType type;
  std::uint32_t dtype;  ///< the same, as the API says it
  std::int64_t layers;
  std::int64_t key_heads;
  std::int64_t page_rows;
  std::int64_t pages;
  std::int64_t sequences;  ///< at once
  Storage key, value;
  Rotary rotary;

  // Offsets into the memory, which begins with the cache itself.
  std::size_t slots;        ///< Slot [sequences]
  std::size_t lengths;      ///< int32 [sequences][layers]
  std::size_t previous;     ///< int32 [pages], see PageTree
  std::size_t references;   ///< int32 [pages]
  std::size_t frequencies;  ///< double [rotary.angles()], unless rotary has tables
  std::size_t bytes;        ///< of all

  bool rows_have_scales() const { return type == ElementType::kI8; }
  std::size_t page_bytes() const {
    const std::size_t scales_of_row = rows_have_scales() ? 2 * sizeof(float) : 0;
    return static_cast<std::size_t>(layers * key_heads * page_rows) *
           (key.row_bytes + value.row_bytes + scales_of_row);
  }
};

/// Throws an Error that names the field, its value and the bound.
CacheProblem validate(const heed_cache_desc& desc);

// ---- The cache ----------------------------------------------------------------------------------

inline constexpr std::int32_t kNoPage = -1;

/// Pages name the one before them, so that sequences which begin alike share pages:
///
///   0 <- 1 <- 2 <- 5      sequence A ends with page 5
///          <- 3           sequence B with page 3
///
/// Whoever names a page holds a reference to it: the pages that follow it, and the sequences that
/// end with it. So a fork costs one reference, and the pages that belong to one sequence alone are
/// its last ones, behind the last page with several references.
///
/// The cache's mutex guards all of this, except before(page) of a page that the caller has, and
/// list().
class PageTree {
 public:
  PageTree(std::int32_t* previous, std::int32_t* references, std::int64_t pages)
      : previous_(previous), references_(references), first_free_(kNoPage), free_(0) {
    for (std::int64_t page = pages; page-- > 0;) give_back(static_cast<std::int32_t>(page));
  }

  std::int64_t free() const { return free_; }
  std::int32_t before(std::int32_t page) const { return previous_[page]; }

  /// A page that nobody refers to yet; there must be one.
  std::int32_t take() {
    const std::int32_t page = first_free_;
    first_free_ = previous_[page];
    --free_;
    return page;
  }

  /// Gives back a page that nobody refers to.
  void give_back(std::int32_t page) {
    references_[page] = 0;
    previous_[page] = first_free_;
    first_free_ = page;
    ++free_;
  }

  void share(std::int32_t page) {
    if (page != kNoPage) ++references_[page];
  }
  /// Gives up a reference. A page without any is free, and refers no more to the one before it.
  void release(std::int32_t page) {
    while (page != kNoPage && --references_[page] == 0) {
      const std::int32_t before = previous_[page];
      give_back(page);
      page = before;
    }
  }

  /// Puts a page that has one reference, or will have one, behind another, which has to have one
  /// for that.
  void follow(std::int32_t page, std::int32_t before) {
    previous_[page] = before;
    references_[page] = 1;
  }

  /// How many of the last pages of a sequence, which ends with `last`, are its own; `most` are
  /// looked at.
  std::int64_t own(std::int32_t last, std::int64_t most) const {
    std::int64_t pages = 0;
    for (; pages < most && references_[last] == 1; last = previous_[last]) ++pages;
    return pages;
  }

  /// The first `most` of the `count` pages of a sequence that the caller has, in order; it ends
  /// with `last`.
  void list(std::int32_t last, std::int64_t count, std::int64_t most, std::int32_t* pages) const {
    for (std::int64_t n = count; n-- > 0; last = previous_[last])
      if (n < most) pages[n] = last;
  }

 private:
  std::int32_t* const previous_;    ///< [pages]; of a free page the next free one
  std::int32_t* const references_;  ///< [pages]
  std::int32_t first_free_;
  std::int64_t free_;
};

/// The place of one sequence.
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
  /// Row t's; the page's other rows have theirs beside it.
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

// ---- Sequences as bytes, in the format of api/docs/reference/cache.md ---------------------------

std::size_t saved_bytes(const heed_cache& cache, heed_sequence sequence);

/// Throws an Error if the sequence has more bytes.
void save_to_memory(const heed_cache& cache, heed_sequence sequence, void* memory,
                    std::size_t bytes);
void save_to_file(const heed_cache& cache, heed_sequence sequence, int descriptor);

/// Throw an Error, and leave the cache as it was, unless all that was saved is there, whole and for
/// such a cache.
heed_sequence load_from_memory(heed_cache& cache, const void* memory, std::size_t bytes);
heed_sequence load_from_file(heed_cache& cache, int descriptor);

}  // namespace heed
