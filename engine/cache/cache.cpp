#include "engine/cache/cache.hpp"

#include <new>

#include "engine/runtime/allocator.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {

PageTree::PageTree(std::int32_t* previous, std::int32_t* references, std::int64_t pages)
    : previous_(previous), references_(references), first_free_(kNoPage), free_(0) {
  for (std::int64_t page = pages; page-- > 0;) give_back(static_cast<std::int32_t>(page));
}

std::int32_t PageTree::take() {
  const std::int32_t page = first_free_;
  first_free_ = previous_[page];
  --free_;
  return page;
}

void PageTree::give_back(std::int32_t page) {
  references_[page] = 0;
  previous_[page] = first_free_;
  first_free_ = page;
  ++free_;
}

void PageTree::release(std::int32_t page) {
  while (page != kNoPage && --references_[page] == 0) {
    const std::int32_t before = previous_[page];
    give_back(page);
    page = before;
  }
}

std::int64_t PageTree::own(std::int32_t last, std::int64_t most) const {
  std::int64_t pages = 0;
  for (; pages < most && references_[last] == 1; last = previous_[last]) ++pages;
  return pages;
}

void PageTree::list(std::int32_t last, std::int64_t count, std::int64_t most,
                    std::int32_t* pages) const {
  for (std::int64_t n = count; n-- > 0; last = previous_[last])
    if (n < most) pages[n] = last;
}

heed_cache* make_cache(const heed_context& context, const heed_cache_desc& desc) {
  const CacheProblem problem = validate(desc);
  void* const memory = allocate(context.allocator, problem.bytes, kAlignment);
  auto* const cache = new (memory) heed_cache(context, problem);
  share(context);
  prefer_large_pages(cache->memory(problem.key.pools), cache->memory(problem.bytes));
  return cache;
}

void destroy_cache(heed_cache* cache) noexcept {
  const heed_context* const context = cache->context;
  const std::size_t bytes = cache->problem.bytes;
  cache->~heed_cache();
  context->allocator.release(context->allocator.user, cache, bytes);
  release(context);
}

heed_cache_info describe(const heed_cache& cache) {
  const CacheProblem& p = cache.problem;
  heed_cache_info info = HEED_CACHE_INFO_INIT;
  info.dtype = p.dtype;
  info.pages = p.pages;
  info.page_rows = p.page_rows;
  info.bytes = p.bytes;
  info.page_bytes = p.page_bytes();
  const std::lock_guard<std::mutex> lock(cache.mutex);
  info.sequences = cache.alive;
  info.pages_used = p.pages - cache.pages.free();
  info.pages_shared = info.pages_used;
  for (std::int64_t slot = 0; slot < p.sequences; ++slot)  // free ones have no pages
    info.pages_shared -= cache.pages.own(cache.slots[slot].last, cache.slots[slot].pages);
  return info;
}

}  // namespace heed

heed_cache::heed_cache(const heed_context& of, const heed::CacheProblem& checked)
    : context(&of),
      problem(checked),
      pages(reinterpret_cast<std::int32_t*>(memory(checked.previous)),
            reinterpret_cast<std::int32_t*>(memory(checked.references)), checked.pages),
      slots(reinterpret_cast<heed::Slot*>(memory(checked.slots))),
      lengths(reinterpret_cast<std::int32_t*>(memory(checked.lengths))),
      frequencies(checked.rotary.base == 0
                      ? nullptr
                      : reinterpret_cast<double*>(memory(checked.frequencies))) {
  if (frequencies != nullptr) fill_frequencies(problem.rotary, frequencies);
  for (std::int64_t slot = 0; slot < problem.sequences; ++slot)
    new (slots + slot) heed::Slot{0, slot + 1, 0, heed::kNoPage, false, 0};
}
