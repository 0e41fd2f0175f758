// Score functions to test with: what heed calls, and what the oracle makes of the same.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

#include "api/heed.h"
#include "tests/reference/scores.hpp"

namespace heed_test {

/// What a score function is called with: the problem, to see whether tiles make sense.
struct TileCheck {
  heed_attention_desc desc;
  std::atomic<bool> wrong{false};
  std::atomic<std::uint64_t> calls{0};
};

inline bool sensible(const heed_score_tile& tile, const heed_attention_desc& desc) {
  bool good = tile.struct_size == sizeof tile && tile.dtype == real_dtype(desc) &&
              tile.batch >= 0 && tile.batch < desc.batch && tile.first_key >= 0 && tile.keys >= 0 &&
              tile.first_key + tile.keys <= desc.key_length && tile.rows <= tile.stride_key;
  for (Index r = 0; good && r < tile.rows; ++r)
    good = tile.query_rows[r] >= 0 && tile.query_rows[r] < desc.query_length &&
           tile.query_heads[r] >= 0 && tile.query_heads[r] < desc.query_heads;
  return good;
}

template <class Change, class Real>
void change_scores(const heed_score_tile& tile) {
  for (Index j = 0; j < tile.keys; ++j)
    for (Index r = 0; r < tile.rows; ++r) {
      Real& score = static_cast<Real*>(tile.scores)[j * tile.stride_key + r];
      const Place at = {tile.batch, tile.query_heads[r], tile.query_rows[r], tile.first_key + j};
      score = Change::change(score, at);
    }
}

template <class Change>
void change_tile(void* user, const heed_score_tile* tile) {
  auto& check = *static_cast<TileCheck*>(user);
  ++check.calls;
  if (!sensible(*tile, check.desc)) {
    check.wrong = true;
    return;
  }
  if (tile->dtype == HEED_DTYPE_F64)
    change_scores<Change, double>(*tile);
  else
    change_scores<Change, float>(*tile);
}

struct ScoreFunction {
  const char* name = "none";
  heed_score_function call = nullptr;
  ScoreModel model = nullptr;
};

using WideScore = Score<long double>;

/// Adds a small number that is different at neighbouring places: -1.25 to 1.25, exactly.
struct Shift {
  static constexpr const char* kName = "shift";
  static int steps(const Place& at) {
    return static_cast<int>((3 * at.batch + 7 * at.head + 3 * at.row + 5 * at.key) % 11) - 5;
  }
  template <class Real>
  static Real change(Real s, const Place& at) {
    return s + static_cast<Real>(0.25) * static_cast<Real>(steps(at));
  }
  static WideScore expect(const WideScore& s, const Place& at, long double unit) {
    const long double value = s.value + 0.25L * steps(at);
    if (std::isinf(value)) return {value, s.error};
    return {value, s.error + unit * (std::fabs(value) + s.error)};
  }
};

/// Halves every other score.
struct Halve {
  static constexpr const char* kName = "halve";
  static bool halves(const Place& at) { return (at.head + at.row + at.key) % 2 == 1; }
  template <class Real>
  static Real change(Real s, const Place& at) {
    return halves(at) ? s * static_cast<Real>(0.5) : s;
  }
  static WideScore expect(const WideScore& s, const Place& at, long double) {
    return halves(at) ? WideScore{s.value / 2, s.error / 2 + 0x1p-150L} : s;
  }
};

/// Keeps scores at or below 1.5; NaN stays.
struct Ceiling {
  static constexpr const char* kName = "ceiling";
  template <class Real>
  static Real change(Real s, const Place&) {
    return s > static_cast<Real>(1.5) ? static_cast<Real>(1.5) : s;
  }
  static WideScore expect(const WideScore& s, const Place&, long double) {
    if (!(s.value > 1.5L)) return s;
    return {1.5L, s.value - s.error > 1.5L ? 0 : s.error};
  }
};

/// Gives every fifth place no weight.
struct Hide {
  static constexpr const char* kName = "hide";
  static bool hides(const Place& at) { return (at.batch + at.head + at.row + 2 * at.key) % 5 == 0; }
  template <class Real>
  static Real change(Real s, const Place& at) {
    return hides(at) ? -std::numeric_limits<Real>::infinity() : s;
  }
  static WideScore expect(const WideScore& s, const Place& at, long double) {
    return hides(at) ? WideScore{-std::numeric_limits<long double>::infinity(), 0} : s;
  }
};

template <class Change>
ScoreFunction score_function() {
  return {Change::kName, change_tile<Change>, Change::expect};
}

}  // namespace heed_test
