// Which pages of a cache's pool are used, and in which order.
#pragma once

#include <cstdint>

namespace heed {

inline constexpr std::int32_t kNoPage = -1;

/// Pages name the one before them, so that sequences which begin alike share pages:
///
///   0 <- 1 <- 2 <- 5      sequence A ends with page 5
///          <- 3           sequence B with page 3
///
/// Whoever names a page holds a reference to it: the pages that follow it, and the sequences that
/// end with it. So a fork costs one reference, and the pages that belong to one sequence alone are
/// its last ones: those behind the last page with several references.
///
/// The cache's mutex guards all of this, but for before(page) of a page that the caller has, and
/// list().
class PageTree {
 public:
  PageTree(std::int32_t* previous, std::int32_t* references, std::int64_t pages);

  std::int64_t free() const { return free_; }
  std::int32_t before(std::int32_t page) const { return previous_[page]; }
  std::int32_t references(std::int32_t page) const { return references_[page]; }

  /// A page that nobody refers to yet; there must be one.
  std::int32_t take();
  /// Gives back a page that nobody refers to.
  void give_back(std::int32_t page);

  void share(std::int32_t page) {
    if (page != kNoPage) ++references_[page];
  }
  /// Gives up a reference. A page without any is free, and refers no more to the one before it.
  void release(std::int32_t page);

  /// Puts a page that has one reference, or will have one, behind another, which has to have one
  /// for that.
  void follow(std::int32_t page, std::int32_t before) {
    previous_[page] = before;
    references_[page] = 1;
  }

  /// How many of the last pages of a sequence, which ends with `last`, are its own; `most` are
  /// looked at.
  std::int64_t own(std::int32_t last, std::int64_t most) const;

  /// The first `most` of the `count` pages of a sequence that the caller has, in order; it ends
  /// with `last`.
  void list(std::int32_t last, std::int64_t count, std::int64_t most, std::int32_t* pages) const;

 private:
  std::int32_t* const previous_;    ///< [pages]; of a free page the next free one
  std::int32_t* const references_;  ///< [pages]
  std::int32_t first_free_;
  std::int64_t free_;
};

}  // namespace heed
