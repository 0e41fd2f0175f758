// The data caches that tiles are sized by.
#pragma once

#include <cstddef>

namespace heed {

struct Caches {
  std::size_t l1_bytes;  ///< per core
  std::size_t l2_bytes;  ///< per core
};

/// Asks the operating system; sizes that it does not know are taken to be 32 KiB and 512 KiB.
Caches read_caches();

/// The cache size that tiles are cut for: the L2 cache, up to a size beyond which larger tiles gain
/// nothing but larger workspaces.
inline std::size_t tile_cache(const Caches& caches) {
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  return caches.l2_bytes < kLargest ? caches.l2_bytes : kLargest;
}

}  // namespace heed
