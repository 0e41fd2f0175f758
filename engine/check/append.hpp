// Checks of rows that are appended to a cache.
#pragma once

#include "engine/cache/append.hpp"

namespace heed {

/// Tells on stderr what looks odd.
void check_append(const heed_cache& cache, const Append& append);

}  // namespace heed
