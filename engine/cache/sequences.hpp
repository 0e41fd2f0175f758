// The sequences of a cache, and who may use them when.
#pragma once

#include <cstdint>
#include <mutex>

#include "engine/cache/cache.hpp"
#include "engine/dense/rotate.hpp"
#include "engine/runtime/allocator.hpp"
#include "engine/tensor/operands.hpp"

namespace heed {

/// The lowest bits of a heed_sequence are its slot; the others count all sequences of the process,
/// so that no two have the same.
inline constexpr int kSlotBits = 20;

enum class Access { kRead, kChange };

/// The slot of a sequence; the caller holds the mutex. Throws an Error that names the sequence if
/// there is none, or another call is in the way.
std::int64_t find_slot(const heed_cache& cache, heed_sequence sequence, Access access);

/// Marks a slot while it lives: nobody changes a sequence that is read, or reads one that changes.
class Use {
 public:
  Use(const heed_cache& cache, heed_sequence sequence, Access access)
      : cache_(cache), access_(access) {
    const std::lock_guard<std::mutex> lock(cache.mutex);
    slot_ = find_slot(cache, sequence, access);
    Slot& slot = cache.slots[slot_];
    if (access == Access::kChange)
      slot.changing = true;
    else
      ++slot.readers;
  }

  ~Use() {
    const std::lock_guard<std::mutex> lock(cache_.mutex);
    Slot& slot = cache_.slots[slot_];
    if (access_ == Access::kChange)
      slot.changing = false;
    else
      --slot.readers;
  }

  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  std::int64_t slot() const { return slot_; }

 private:
  const heed_cache& cache_;
  const Access access_;
  std::int64_t slot_;
};

heed_sequence create_sequence(heed_cache& cache);
heed_sequence fork_sequence(heed_cache& cache, heed_sequence from);
void free_sequence(heed_cache& cache, heed_sequence sequence);
void truncate_sequence(heed_cache& cache, heed_sequence sequence, std::int64_t length);
std::int64_t length_of(const heed_cache& cache, heed_sequence sequence, std::int64_t layer);

/// Throws unless the cache has that layer; `field` is as in "desc.layer".
void check_layer(const heed_cache& cache, const char* field, std::int64_t layer);

// ---- Growth -------------------------------------------------------------------------------------

/// New rows of one layer, at least one, which the caller writes:
///
///   Growth growth(cache, sequence, layer, rows);   takes pages
///   growth.copy_shared();                          who shares pages keeps them as they are
///   ... writes rows [begin(), end()) ...
///   growth.keep();                                 now the sequence has them
///
/// Without the last step nothing has changed for anybody.
class Growth {
 public:
  /// Throws an Error with HEED_STATUS_OUT_OF_MEMORY that names pages wanted and free.
  Growth(heed_cache& cache, heed_sequence sequence, std::int64_t layer, std::int64_t rows);
  ~Growth();
  Growth(const Growth&) = delete;
  Growth& operator=(const Growth&) = delete;

  void copy_shared() const;
  void keep();

  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  /// Where row t is to be written.
  std::int32_t page_of(std::int64_t t) const {
    return pages_[t / cache_.problem.page_rows - first_];
  }

 private:
  void copy(std::int32_t from, std::int64_t number) const;

  heed_cache& cache_;
  const Use use_;
  const std::int64_t layer_;
  std::int64_t begin_, end_;

  /// Pages of a sequence are numbered in the order of their rows; the first that is written to is
  /// first_. Some of them are taken from the pool:
  ///
  ///   [first_, end_of_copies_)            to be copies of shared ones
  ///   [end_of_copies_, pages_before_)     its own
  ///   [pages_before_, pages_after_)       new
  ///
  /// Shared pages come before its own. So all that it shares from first_ on is copied, even if rows
  /// of other layers are all that lies there.
  std::int64_t first_, end_of_copies_, pages_before_, pages_after_;
  std::int32_t before_first_;           ///< the page, as it is
  std::int32_t last_shared_ = kNoPage;  ///< the last page that is copied
  Array<std::int32_t> pages_;           ///< from first_ on, as they will be
  bool kept_ = false;
};

// ---- Rows on their way into a cache -------------------------------------------------------------

struct AppendedRows {
  const void* key;
  const void* value;
};

/// New rows for a layer of a sequence, checked as far as they do not depend on the sequence.
struct Append {
  const CacheProblem& cache;
  std::int64_t layer;
  std::int64_t rows;
  Positions positions;
  AppendedRows given;
  Layout key, value;
};

using AppendApi = Structs<heed_cache_append_desc, AppendedRows, Append>;
template <Storage CacheProblem::*kStored>
Axes appended_axes(const Append& append) {
  return {{1, append.cache.key_heads, append.rows, (append.cache.*kStored).features},
          kPackedRowNames,
          Nesting::kPackedRows};
}
inline constexpr Operand<Append> kAppendOperands[] = {
    input(HEED_TENSOR(AppendApi, key), appended_axes<&CacheProblem::key>).passed(),
    input(HEED_TENSOR(AppendApi, value), appended_axes<&CacheProblem::value>).passed(),
};

/// Throws an Error that names the field, its value and the bound.
Append validate(const heed_cache& cache, const heed_cache_append_desc& desc, const void* key,
                const void* value);

void run_append(heed_cache& cache, heed_sequence sequence, const Append& append);

}  // namespace heed
