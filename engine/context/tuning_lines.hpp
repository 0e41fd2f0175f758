// What the lines of a tuning file say.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/context/tuning.hpp"

namespace heed {

/// A tuning file, and how far it has been read.
struct TuningFile {
  const char* path;
  const char* source;  ///< who named it
  unsigned line;       ///< 0: it as a whole

  /// Throws an Error that names the file, and the line if there is one.
  [[noreturn, gnu::format(printf, 3, 4)]] void refuse(heed_status status, const char* why,
                                                      ...) const;
};

/// A CPU and ISA.
struct TuningFor {
  std::string_view cpu, isa;
};

/// How many lines of the text give tiles for these; they go to `tiles` unless it is nullptr. All
/// lines are checked.
std::int64_t read_lines(TuningFile file, std::string_view text, const TuningFor& here,
                        TunedTiles* tiles);

/// Whether the tiles are for such problems.
bool covers(const TunedTiles& tiles, const TuningKey& key);

}  // namespace heed
