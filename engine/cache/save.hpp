// Sequences as bytes, in the format that api/README.md states.
#pragma once

#include <cstddef>

#include "engine/cache/cache.hpp"

namespace heed {

std::size_t saved_bytes(const heed_cache& cache, heed_sequence sequence);

/// Throws an Error if the sequence has more bytes.
void save_to_memory(const heed_cache& cache, heed_sequence sequence, void* memory,
                    std::size_t bytes);
void save_to_file(const heed_cache& cache, heed_sequence sequence, int descriptor);

/// Throw an Error, and leave the cache as it was, unless all that was saved is there, whole and for
/// such a cache.
heed_sequence load_from_memory(heed_cache& cache, const void* memory, std::size_t bytes);
heed_sequence load_from_file(heed_cache& cache, int descriptor);

}  // namespace heed
