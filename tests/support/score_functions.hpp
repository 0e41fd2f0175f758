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

/// Calls function(index, place) for every score of a tile, whose element it is.
template <class Function>
void each_score(const heed_score_tile& tile, Function&& function) {
  for (Index j = 0; j < tile.keys; ++j)
    for (Index r = 0; r < tile.rows; ++r)
      function(j * tile.stride_key + r,
               Place{tile.batch, tile.query_heads[r], tile.query_rows[r], tile.first_key + j});
}

/// Changes the scores of a tile; or, where gradients are given, those, by the derivative.
template <class Change, class Real>
void change_numbers(const heed_score_tile& tile, void* gradients) {
  auto* const scores = static_cast<Real*>(tile.scores);
  each_score(tile, [&](Index n, const Place& at) {
    if (gradients == nullptr)
      scores[n] = Change::change(scores[n], at);
    else
      static_cast<Real*>(gradients)[n] *= Change::slope(scores[n], at);
  });
}

template <class Change>
void change_gradients(void* user, const heed_score_tile* tile, void* gradients) {
  auto& check = *static_cast<TileCheck*>(user);
  ++check.calls;
  if (!sensible(*tile, check.desc)) {
    check.wrong = true;
    return;
  }
  if (tile->dtype == HEED_DTYPE_F64)
    change_numbers<Change, double>(*tile, gradients);
  else
    change_numbers<Change, float>(*tile, gradients);
}

template <class Change>
void change_tile(void* user, const heed_score_tile* tile) {
  change_gradients<Change>(user, tile, nullptr);
}

struct ScoreFunction {
  const char* name = "none";
  heed_score_function call = nullptr;
  ScoreModel model = nullptr;
  heed_score_gradient gradient = nullptr;
  ScoreModel derivative = nullptr;
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
  template <class Real>
  static Real slope(Real, const Place&) {
    return 1;
  }
  static WideScore expect(const WideScore& s, const Place& at, long double unit);
  static WideScore expect_slope(const WideScore& s, const Place& at, long double);
};

/// Halves every other score.
struct Halve {
  static constexpr const char* kName = "halve";
  static bool halves(const Place& at) { return (at.head + at.row + at.key) % 2 == 1; }
  template <class Real>
  static Real change(Real s, const Place& at) {
    return halves(at) ? s * static_cast<Real>(0.5) : s;
  }
  template <class Real>
  static Real slope(Real, const Place& at) {
    return halves(at) ? static_cast<Real>(0.5) : 1;
  }
  static WideScore expect(const WideScore& s, const Place& at, long double);
  static WideScore expect_slope(const WideScore& s, const Place& at, long double);
};

/// Keeps scores at or below 1.5; NaN stays.
struct Ceiling {
  static constexpr const char* kName = "ceiling";
  template <class Real>
  static Real change(Real s, const Place&) {
    return s > static_cast<Real>(1.5) ? static_cast<Real>(1.5) : s;
  }
  template <class Real>
  static Real slope(Real s, const Place&) {
    return s > static_cast<Real>(1.5) ? 0 : 1;
  }
  static WideScore expect(const WideScore& s, const Place&, long double);
  static WideScore expect_slope(const WideScore& s, const Place&, long double);
};

/// Gives every fifth place no weight.
struct Hide {
  static constexpr const char* kName = "hide";
  static bool hides(const Place& at) { return (at.batch + at.head + at.row + 2 * at.key) % 5 == 0; }
  template <class Real>
  static Real change(Real s, const Place& at) {
    return hides(at) ? -std::numeric_limits<Real>::infinity() : s;
  }
  template <class Real>
  static Real slope(Real, const Place& at) {
    return hides(at) ? 0 : 1;
  }
  static WideScore expect(const WideScore& s, const Place& at, long double);
  static WideScore expect_slope(const WideScore& s, const Place& at, long double);
};

/// s + s^2 / 16: its derivative is another one for every score. NaN for -inf.
struct Bend {
  static constexpr const char* kName = "bend";
  template <class Real>
  static Real change(Real s, const Place&) {
    return s + s * s * static_cast<Real>(0.0625);
  }
  template <class Real>
  static Real slope(Real s, const Place&) {
    return 1 + s * static_cast<Real>(0.125);
  }
  static WideScore expect(const WideScore& s, const Place& at, long double unit);
  static WideScore expect_slope(const WideScore& s, const Place& at, long double unit);
};

template <class Change>
ScoreFunction score_function() {
  return {Change::kName, change_tile<Change>, Change::expect, change_gradients<Change>,
          Change::expect_slope};
}

extern template ScoreFunction score_function<Shift>();
extern template ScoreFunction score_function<Halve>();
extern template ScoreFunction score_function<Ceiling>();
extern template ScoreFunction score_function<Hide>();
extern template ScoreFunction score_function<Bend>();

}  // namespace heed_test
