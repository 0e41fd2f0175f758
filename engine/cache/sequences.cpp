#include "engine/cache/sequences.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "engine/parallel/parallel_for.hpp"
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
         "the cache has %lld sequences, as many as its desc.sequences allows", lld(cache.alive));
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
    refuse("sequence 0x%llx is none of this cache's: it was freed, or belongs to another", name);
  const Slot& slot = cache.slots[number];
  if (slot.changing)
    fail(HEED_STATUS_BUSY, "sequence 0x%llx is being changed by another call", name);
  if (access == Access::kChange && slot.readers > 0)
    fail(HEED_STATUS_BUSY, "sequence 0x%llx is being used by another call", name);
  return number;
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
    refuse("length is %lld; it must be 0 to %d, the rows of layer %lld", lld(length), *shortest,
           lld(shortest - lengths));
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
    refuse("%s is %lld; it must be 0 to %lld, for the cache's layers", field, lld(layer),
           lld(cache.problem.layers - 1));
}

// ---- Growth -------------------------------------------------------------------------------------

Growth::Growth(heed_cache& cache, heed_sequence sequence, std::int64_t layer, std::int64_t rows)
    : cache_(cache), use_(cache, sequence, Access::kChange), layer_(layer) {
  const std::int64_t page_rows = cache.problem.page_rows;
  const Slot& slot = cache.slots[use_.slot()];
  begin_ = cache.lengths_of(use_.slot())[layer];
  if (rows > INT32_MAX - begin_)
    refuse("desc.rows is %lld; with the %lld that the sequence has, it must be at most %d",
           lld(rows), lld(begin_), INT32_MAX);
  end_ = begin_ + rows;
  first_ = begin_ / page_rows;
  pages_before_ = slot.pages;
  pages_after_ = std::max(pages_before_, ceil_div(end_, page_rows));
  pages_ = Array<std::int32_t>(cache.context->allocator, pages_after_ - first_);

  const std::lock_guard<std::mutex> lock(cache.mutex);
  PageTree& tree = cache.pages;
  end_of_copies_ = pages_before_ - tree.own(slot.last, pages_before_ - first_);
  const std::int64_t wanted = end_of_copies_ - first_ + pages_after_ - pages_before_;
  if (wanted > tree.free())
    fail(HEED_STATUS_OUT_OF_MEMORY,
         "%lld more rows take %lld pages; %lld of the cache's %lld are free", lld(rows),
         lld(wanted), lld(tree.free()), lld(cache.problem.pages));
  before_first_ = slot.last;
  for (std::int64_t n = pages_before_; n-- > first_; before_first_ = tree.before(before_first_)) {
    if (n + 1 == end_of_copies_) last_shared_ = before_first_;
    pages_[n - first_] = n < end_of_copies_ ? tree.take() : before_first_;
  }
  for (std::int64_t n = pages_before_; n < pages_after_; ++n) pages_[n - first_] = tree.take();
}

Growth::~Growth() {
  if (kept_) return;
  const std::lock_guard<std::mutex> lock(cache_.mutex);
  for (std::int64_t n = pages_after_; n-- > first_;)
    if (n < end_of_copies_ || n >= pages_before_) cache_.pages.give_back(pages_[n - first_]);
}

void Growth::copy_shared() const {
  std::int32_t from = last_shared_;
  for (std::int64_t n = end_of_copies_; n-- > first_; from = cache_.pages.before(from))
    copy(from, n);
}

/// Copies the rows that the layers have in a page.
void Growth::copy(std::int32_t from, std::int64_t number) const {
  const CacheProblem& p = cache_.problem;
  const std::int32_t to = pages_[number - first_];
  const std::int32_t* const lengths = cache_.lengths_of(use_.slot());
  const auto copy_head = [&](std::int64_t layer, std::int64_t head) {
    const std::int64_t rows =
        std::clamp<std::int64_t>(lengths[layer] - number * p.page_rows, 0, p.page_rows);
    for (const Storage* const stored : {&p.key, &p.value}) {
      std::memcpy(cache_.row(*stored, layer, to, head, 0),
                  cache_.row(*stored, layer, from, head, 0),
                  static_cast<std::size_t>(rows) * stored->row_bytes);
      if (p.rows_have_scales())
        std::copy_n(cache_.scale(*stored, layer, from, head, 0), rows,
                    cache_.scale(*stored, layer, to, head, 0));
    }
  };
  const std::int64_t heads = p.layers * p.key_heads;
  const double values = static_cast<double>(p.page_bytes()) / sizeof(float);
  const Threads& threads = cache_.context->threads;
  parallel_each(threads, share_evenly(threads, heads, values), [&](std::int64_t i, std::uint32_t) {
    copy_head(i / p.key_heads, i % p.key_heads);
  });
}

void Growth::keep() {
  const std::lock_guard<std::mutex> lock(cache_.mutex);
  PageTree& tree = cache_.pages;
  if (first_ < end_of_copies_) tree.share(before_first_);  // the shared pages follow it, too
  std::int32_t before = before_first_;
  for (std::int64_t n = first_; n < pages_after_; ++n) {
    tree.follow(pages_[n - first_], before);
    before = pages_[n - first_];
  }
  tree.release(last_shared_);
  Slot& slot = cache_.slots[use_.slot()];
  slot.last = before;
  slot.pages = pages_after_;
  cache_.lengths_of(use_.slot())[layer_] = static_cast<std::int32_t>(end_);
  kept_ = true;
}

}  // namespace heed
