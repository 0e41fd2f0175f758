#include "engine/cache/growth.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

Growth::Growth(heed_cache& cache, heed_sequence sequence, std::int64_t layer, std::int64_t rows)
    : cache_(cache), use_(cache, sequence, Access::kChange), layer_(layer) {
  const std::int64_t page_rows = cache.problem.page_rows;
  const Slot& slot = cache.slots[use_.slot()];
  begin_ = cache.lengths_of(use_.slot())[layer];
  if (rows > INT32_MAX - begin_)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.rows is %lld; with the %lld that the sequence has, it must be at most %d",
         static_cast<long long>(rows), static_cast<long long>(begin_), INT32_MAX);
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
         "%lld more rows take %lld pages; of the cache's %lld %lld are free",
         static_cast<long long>(rows), static_cast<long long>(wanted),
         static_cast<long long>(cache.problem.pages), static_cast<long long>(tree.free()));
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

/// Copies what the layers have of a page.
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
  const double numbers = static_cast<double>(p.page_bytes()) / sizeof(float);
  parallel_for(cache_.context->threads, share_evenly(cache_.context->threads, heads, numbers),
               [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
                 for (std::int64_t i = begin; i < end; ++i)
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
