// Checks of rows that are appended to a cache.
#pragma once

#include "engine/cache/append.hpp"
#include "engine/cache/attention.hpp"

namespace heed {

/// Tells on stderr what looks odd.
void check_append(const heed_cache& cache, const Append& append);

/// Tells of rows of a prompt that attend those after them, which is rarely meant.
void check_cache_attention(const CacheAttention& attention);

}  // namespace heed
