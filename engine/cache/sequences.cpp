#include "engine/cache/sequences.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

using Lock = std::lock_guard<std::mutex>;

std::atomic<std::uint64_t> sequences_made{0};

/// A slot for a new sequence; the caller holds the mutex.
std::int64_t take_slot(heed_cache& cache) {
  const std::int64_t taken = cache.first_free_slot;
  if (taken == cache.problem.sequences)
    fail(HEED_STATUS_OUT_OF_MEMORY,
         "the cache has %lld sequences, as many as its desc.sequences allows",
         static_cast<long long>(cache.alive));
  Slot& slot = cache.slots[taken];
  cache.first_free_slot = slot.next_free;
  ++cache.alive;
  const std::uint64_t number = sequences_made.fetch_add(1, std::memory_order_relaxed) + 1;
  slot = {number << kSlotBits | static_cast<std::uint64_t>(taken), 0, 0, kNoPage, false, 0};
  return taken;
}

}  // namespace

std::int64_t find_slot(const heed_cache& cache, heed_sequence sequence, Access access) {
  const auto number = static_cast<std::int64_t>(sequence & ((heed_sequence{1} << kSlotBits) - 1));
  const auto name = static_cast<unsigned long long>(sequence);
  if (sequence == 0 || number >= cache.problem.sequences || cache.slots[number].id != sequence)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "sequence 0x%llx is none of this cache's: it was freed, or belongs to another", name);
  const Slot& slot = cache.slots[number];
  if (slot.changing)
    fail(HEED_STATUS_BUSY, "sequence 0x%llx is being changed by another call", name);
  if (access == Access::kChange && slot.readers > 0)
    fail(HEED_STATUS_BUSY, "sequence 0x%llx is being used by another call", name);
  return number;
}

Use::Use(const heed_cache& cache, heed_sequence sequence, Access access)
    : cache_(cache), access_(access) {
  const Lock lock(cache.mutex);
  slot_ = find_slot(cache, sequence, access);
  Slot& slot = cache.slots[slot_];
  if (access == Access::kChange)
    slot.changing = true;
  else
    ++slot.readers;
}

Use::~Use() {
  const Lock lock(cache_.mutex);
  Slot& slot = cache_.slots[slot_];
  if (access_ == Access::kChange)
    slot.changing = false;
  else
    --slot.readers;
}

heed_sequence create_sequence(heed_cache& cache) {
  const Lock lock(cache.mutex);
  const std::int64_t made = take_slot(cache);
  std::fill_n(cache.lengths_of(made), cache.problem.layers, 0);
  return cache.slots[made].id;
}

heed_sequence fork_sequence(heed_cache& cache, heed_sequence sequence) {
  const Lock lock(cache.mutex);
  const std::int64_t from = find_slot(cache, sequence, Access::kRead);
  const std::int64_t made = take_slot(cache);
  std::copy_n(cache.lengths_of(from), cache.problem.layers, cache.lengths_of(made));
  cache.slots[made].pages = cache.slots[from].pages;
  cache.slots[made].last = cache.slots[from].last;
  cache.pages.share(cache.slots[from].last);
  return cache.slots[made].id;
}

void free_sequence(heed_cache& cache, heed_sequence sequence) {
  const Lock lock(cache.mutex);
  const std::int64_t freed = find_slot(cache, sequence, Access::kChange);
  Slot& slot = cache.slots[freed];
  cache.pages.release(slot.last);
  slot = {0, cache.first_free_slot, 0, kNoPage, false, 0};
  cache.first_free_slot = freed;
  --cache.alive;
}

void truncate_sequence(heed_cache& cache, heed_sequence sequence, std::int64_t length) {
  const Lock lock(cache.mutex);
  const std::int64_t number = find_slot(cache, sequence, Access::kChange);
  std::int32_t* const lengths = cache.lengths_of(number);
  const std::int32_t* const shortest = std::min_element(lengths, lengths + cache.problem.layers);
  if (length < 0 || length > *shortest)
    fail(HEED_STATUS_INVALID_ARGUMENT, "length is %lld; it must be 0 to %d, the rows of layer %lld",
         static_cast<long long>(length), *shortest, static_cast<long long>(shortest - lengths));
  std::fill_n(lengths, cache.problem.layers, static_cast<std::int32_t>(length));
  Slot& slot = cache.slots[number];
  const std::int32_t last_before = slot.last;
  for (const std::int64_t kept = ceil_div(length, cache.problem.page_rows); slot.pages > kept;
       --slot.pages)
    slot.last = cache.pages.before(slot.last);
  cache.pages.share(slot.last);
  cache.pages.release(last_before);
}

std::int64_t length_of(const heed_cache& cache, heed_sequence sequence, std::int64_t layer) {
  check_layer(cache, "layer", layer);
  const Lock lock(cache.mutex);
  return cache.lengths_of(find_slot(cache, sequence, Access::kRead))[layer];
}

void check_layer(const heed_cache& cache, const char* field, std::int64_t layer) {
  if (layer < 0 || layer >= cache.problem.layers)
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s is %lld; it must be 0 to %lld, for the cache's layers",
         field, static_cast<long long>(layer), static_cast<long long>(cache.problem.layers - 1));
}

}  // namespace heed
