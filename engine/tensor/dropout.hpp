// Dropout of weights: what is asked for, and the mask of a run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/operands.hpp"

namespace heed {

/// The bytes that one pair draws from: of so many values `threshold` drop the pair.
inline constexpr std::uint32_t kDropoutValues = 256;

/// How many of kDropoutValues drop a pair; 0: dropout is off. Throws unless the field makes sense.
std::uint32_t resolve_dropout(const char* field, double dropout);
/// That of a descriptor, which hard attention has none of.
std::uint32_t resolve_dropout(double dropout, bool hard);

/// Throws unless seed and offset of a run are 0 where dropout is off.
void check_seeds(std::uint32_t threshold, std::uint64_t seed, std::uint64_t offset);

/// Throws unless a larger problem has such a place; nullptr is its beginning.
void check_origin(const std::int64_t* origin);

/// The part of weights that stays on the whole.
inline double kept_part(std::uint32_t threshold) {
  return 1 - static_cast<double>(threshold) / kDropoutValues;
}

/// The mask of one call: the key of Philox is what Philox makes of the caller's seed and offset, so
/// that counters are free for the places of pairs.
struct DropoutMask {
  DropoutMask(std::uint32_t threshold, std::uint64_t seed, std::uint64_t offset);

  /// kept[j] = 0 where key first_key + j of a row is dropped, else 1.
  void show(std::uint32_t batch, std::uint32_t head, std::uint32_t row, std::uint64_t first_key,
            std::size_t keys, std::uint8_t* kept) const;

  std::uint32_t threshold;
  std::uint32_t key[2];
};

}  // namespace heed
