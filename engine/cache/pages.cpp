#include "engine/cache/pages.hpp"

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

}  // namespace heed
