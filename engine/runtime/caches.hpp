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

}  // namespace heed
