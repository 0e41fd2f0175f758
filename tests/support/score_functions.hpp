// Score functions to test with: what heed calls, and what the oracle makes of the same.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "api/heed.h"
#include "tests/oracle/given.hpp"

namespace heed_test {

/// What a score function is called with: the problem, to see whether tiles make sense.
struct TileCheck {
  heed_attention_desc desc;
  std::atomic<bool> wrong{false};
  std::atomic<std::uint64_t> calls{0};
};

bool sensible(const heed_score_tile& tile, const heed_attention_desc& desc);

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
  static int steps(const Place& at);
  template <class Real>
  static Real change(Real s, const Place& at) {
    return s + static_cast<Real>(0.25) * static_cast<Real>(steps(at));
  }
  static WideScore expect(const WideScore& s, const Place& at, long double unit);
};

/// Halves every other score.
struct Halve {
  static constexpr const char* kName = "halve";
  static bool halves(const Place& at) { return (at.head + at.row + at.key) % 2 == 1; }
  template <class Real>
  static Real change(Real s, const Place& at) {
    return halves(at) ? s * static_cast<Real>(0.5) : s;
  }
  static WideScore expect(const WideScore& s, const Place& at, long double);
};

/// Keeps scores at or below 1.5; NaN stays.
struct Ceiling {
  static constexpr const char* kName = "ceiling";
  template <class Real>
  static Real change(Real s, const Place&) {
    return s > static_cast<Real>(1.5) ? static_cast<Real>(1.5) : s;
  }
  static WideScore expect(const WideScore& s, const Place&, long double);
};

/// Gives every fifth place no weight.
struct Hide {
  static constexpr const char* kName = "hide";
  static bool hides(const Place& at) { return (at.batch + at.head + at.row + 2 * at.key) % 5 == 0; }
  template <class Real>
  static Real change(Real s, const Place& at) {
    return hides(at) ? -std::numeric_limits<Real>::infinity() : s;
  }
  static WideScore expect(const WideScore& s, const Place& at, long double);
};

template <class Change>
ScoreFunction score_function() {
  return {Change::kName, change_tile<Change>, Change::expect};
}

extern template ScoreFunction score_function<Shift>();
extern template ScoreFunction score_function<Halve>();
extern template ScoreFunction score_function<Ceiling>();
extern template ScoreFunction score_function<Hide>();

}  // namespace heed_test
