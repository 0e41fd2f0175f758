// Where rows stand that rotary embedding turns.
#pragma once

#include <cstdint>

#include "engine/tensor/rotary.hpp"

namespace heed {

/// What the descriptor of a call says about it.
struct Positions {
  const Rotary& rotary;
  std::int64_t offset;
  const std::int64_t* given;  ///< nullptr: rows stand where they lie in their sequence, plus offset

  /// Where the row stands that is the i-th of those given, and lies at t in its sequence.
  std::int64_t of(std::int64_t i, std::int64_t t) const {
    return given != nullptr ? given[i] : t + offset;
  }

  /// Throws unless one of the two is given at most, and none without rotary embedding.
  void check() const;
  /// Throws unless `count` rows, of which the first is the i-th and lies at t, may stand there.
  void check_rows(std::int64_t i, std::int64_t t, std::int64_t count) const;
};

}  // namespace heed
