// The data caches that tiles are sized by.
#pragma once

#include <cstddef>

namespace heed {

struct Caches {
  std::size_t l1_bytes;  ///< per core
  std::size_t l2_bytes;  ///< per core
};

/// Asks the operating system; what it does not tell is taken as 32 KiB and 512 KiB.
Caches read_caches();

/// What tiles are cut for: of larger L2 caches no more, since tiles gain nothing beyond and
/// workspaces stay small.
inline std::size_t tile_cache(const Caches& caches) {
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  return caches.l2_bytes < kLargest ? caches.l2_bytes : kLargest;
}

}  // namespace heed
