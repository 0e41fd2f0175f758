// Tiles that somebody measured to be better than the automatic ones, from a file, whose
// format api/docs/reference/precision.md has.
#pragma once

#include <cstdint>

#include "engine/context/cpu.hpp"
#include "engine/runtime/allocator.hpp"

namespace heed {

inline constexpr std::uint32_t kMaxTile = 65536;

/// What of a problem and its context decides which tiles are best.
struct TuningKey {
  std::int64_t key, value;  ///< ElementType
  std::int64_t features, value_features;
  std::int64_t rows;   ///< of a pack of query heads
  std::int64_t keys;   ///< of the longest sequence
  std::int64_t heads;  ///< packs of all the batch
  std::int64_t threads;
  std::int64_t causal;  ///< whether later rows attend more keys
};

/// The tiles of problems between two keys; 0 where they are automatic.
struct TunedTiles {
  TuningKey least, most;
  std::uint32_t tile_q, tile_kv;
  std::uint32_t line;  ///< of the file; 0: of no file
};

/// What the file says of one CPU and ISA, in its order; nothing where there is no file.
struct Tuning {
  Array<char> path;  ///< ends with 0
  Array<TunedTiles> tiles;

  /// The first that cover the key; else automatic ones.
  TunedTiles find(const TuningKey& key) const;
};

/// Throws an Error that names the file, the line, its value and what it must be; `source` says
/// who named the file.
Tuning read_tuning(const heed_allocator& allocator, const char* path, const char* source,
                   const CpuName& cpu, const char* isa);

}  // namespace heed
