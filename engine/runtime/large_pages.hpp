// Memory that is gathered from.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace heed {

/// Asks the system for large pages: of rows that are read in any order fewer addresses are looked
/// up. Where it has none, small ones do.
inline void prefer_large_pages([[maybe_unused]] std::byte* begin, [[maybe_unused]] std::byte* end) {
#if defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t kLarge = std::uintptr_t{2} << 20;
  begin += (kLarge - reinterpret_cast<std::uintptr_t>(begin) % kLarge) % kLarge;
  const std::ptrdiff_t bytes = (end - begin) / std::ptrdiff_t{kLarge} * std::ptrdiff_t{kLarge};
  if (bytes > 0) (void)madvise(begin, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
#endif
}

}  // namespace heed
