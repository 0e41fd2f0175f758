// Rows on their way into a cache.
#pragma once

#include "engine/cache/cache.hpp"

namespace heed {

void append_rows(heed_cache& cache, heed_sequence sequence, const heed_cache_append_desc& desc,
                 const void* key, const void* value);

}  // namespace heed
