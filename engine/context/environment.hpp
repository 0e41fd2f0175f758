// The HEED_* environment variables, read once per context and checked where they are read.
#pragma once

#include <cstdint>

#include "engine/context/choices.hpp"
#include "engine/parallel/executor.hpp"

namespace heed {

inline constexpr std::uint32_t kMaxTile = 65536;

/// What the environment asks for; nullptr and 0 for variables that are not set. An empty one counts
/// as not set.
struct Environment {
  const char* isa;
  const char* executor;
  const char* product;
  const char* tuning_file;
  Precision precision;  ///< kDefault if nothing is asked for
  std::uint32_t threads;
  std::uint32_t tile_q;
  std::uint32_t tile_kv;
  bool verbose;
  bool checked;
};

/// Throws an Error that names the variable, its value and what it may be. HEED_ISA, HEED_PARALLEL
/// and HEED_PRODUCT are checked where their choices are known, HEED_TUNING_FILE where it is read.
Environment read_environment();

}  // namespace heed
