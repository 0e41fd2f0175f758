// The sequences of a cache, and who may use them when.
#pragma once

#include <cstdint>

#include "engine/cache/cache.hpp"

namespace heed {

/// The lowest bits of a heed_sequence are its slot; those above count all sequences of the process,
/// so that no two have the same.
inline constexpr int kSlotBits = 20;

enum class Access { kRead, kChange };

/// The slot of a sequence; the caller holds the mutex. Throws an Error that names the sequence if
/// there is none, or another call is in the way.
std::int64_t find_slot(const heed_cache& cache, heed_sequence sequence, Access access);

/// Marks a slot while it lives: nobody changes what is read, or looks at what changes.
class Use {
 public:
  Use(const heed_cache& cache, heed_sequence sequence, Access access);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  std::int64_t slot() const { return slot_; }

 private:
  const heed_cache& cache_;
  const Access access_;
  std::int64_t slot_;
};

heed_sequence create_sequence(heed_cache& cache);
heed_sequence fork_sequence(heed_cache& cache, heed_sequence from);
void free_sequence(heed_cache& cache, heed_sequence sequence);
void truncate_sequence(heed_cache& cache, heed_sequence sequence, std::int64_t length);
std::int64_t length_of(const heed_cache& cache, heed_sequence sequence, std::int64_t layer);

/// Throws unless the cache has that layer; `field` is as in "desc.layer".
void check_layer(const heed_cache& cache, const char* field, std::int64_t layer);

}  // namespace heed
