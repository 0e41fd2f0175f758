// The memory that a caller lends a run, and its layout.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "api/heed.h"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

/// Throws unless the workspace has the bytes that a plan needs and is aligned.
inline void check_workspace(std::size_t needed, const void* workspace, std::size_t bytes) {
  if (bytes < needed)
    fail(HEED_STATUS_INVALID_WORKSPACE, "workspace_bytes is %zu; this plan needs %zu", bytes,
         needed);
  if (needed == 0) return;
  if (workspace == nullptr)
    fail(HEED_STATUS_INVALID_WORKSPACE, "workspace is NULL; this plan needs %zu bytes", needed);
  if (reinterpret_cast<std::uintptr_t>(workspace) % HEED_WORKSPACE_ALIGNMENT != 0)
    fail(HEED_STATUS_INVALID_WORKSPACE, "workspace is %p; it must be a multiple of %d", workspace,
         HEED_WORKSPACE_ALIGNMENT);
}

/// Buffers laid out one after the other, each at a multiple of HEED_WORKSPACE_ALIGNMENT.
class Offsets {
 public:
  /// Where the next buffer begins: [rows][columns] elements of so many bytes. Meaningless unless
  /// all of them fit in the end.
  std::size_t take(Size rows, Size columns, Size element_bytes) {
    const auto begin = static_cast<std::size_t>(end_.value());
    end_ = end_ + round_up(rows * columns * element_bytes, HEED_WORKSPACE_ALIGNMENT);
    return begin;
  }

  std::size_t take_bytes(std::size_t bytes) { return take(static_cast<std::int64_t>(bytes), 1, 1); }

  /// Bytes of all of them.
  Size end() const { return end_; }
  /// The same, checked; `what` and `fields` are as in Size::checked.
  std::size_t end(const char* what, std::initializer_list<Size::Field> fields) const {
    return static_cast<std::size_t>(end_.checked(what, fields));
  }

 private:
  Size end_ = 0;
};

/// Asks the system for large pages of memory that is gathered from: of rows that are read in any
/// order fewer addresses are looked up. Where it has none, small ones do.
inline void prefer_large_pages([[maybe_unused]] std::byte* begin, [[maybe_unused]] std::byte* end) {
#if defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t kLarge = std::uintptr_t{2} << 20;
  begin += (kLarge - reinterpret_cast<std::uintptr_t>(begin) % kLarge) % kLarge;
  const std::ptrdiff_t bytes = (end - begin) / std::ptrdiff_t{kLarge} * std::ptrdiff_t{kLarge};
  if (bytes > 0) (void)madvise(begin, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
#endif
}

}  // namespace heed
