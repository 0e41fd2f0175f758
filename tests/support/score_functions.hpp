// Score functions to test with: what heed calls, and what the oracle makes of the same.
#pragma once

#include <atomic>
#include <cmath>
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

inline bool sensible(const heed_score_tile& tile, const heed_attention_desc& desc) {
  bool good = tile.struct_size == sizeof tile && tile.dtype == real_dtype(desc) &&
              tile.batch >= 0 && tile.batch < desc.batch && tile.first_key >= 0 && tile.keys >= 0 &&
              tile.first_key + tile.keys <= desc.key_length && tile.rows <= tile.stride_key;
  for (Index r = 0; good && r < tile.rows; ++r)
    good = tile.query_rows[r] >= 0 && tile.query_rows[r] < desc.query_length &&
           tile.query_heads[r] >= 0 && tile.query_heads[r] < desc.query_heads;
  return good;
}

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

using WideScore = Bounded<long double>;

/// A change whose derivative no error of a score moves.
template <class Change>
struct SureSlope {
  static WideScore expect_slope(const WideScore& s, const Place& at, long double) {
    return {Change::slope(s.value, at), 0};
  }
};

/// Adds a small number that is different at neighbouring places: -1.25 to 1.25, exactly.
struct Shift : SureSlope<Shift> {
  static constexpr const char* kName = "shift";
  static int steps(const Place& at) {
    return static_cast<int>((3 * at.batch + 7 * at.head + 3 * at.row + 5 * at.key) % 11) - 5;
  }
  template <class Real>
  static Real change(Real s, const Place& at) {
    return s + static_cast<Real>(0.25) * static_cast<Real>(steps(at));
  }
  template <class Real>
  static Real slope(Real, const Place&) {
    return 1;
  }
  static WideScore expect(const WideScore& s, const Place& at, long double unit) {
    const long double value = change(s.value, at);
    if (std::isinf(value)) return {value, s.bound};
    return {value, s.bound + unit * (std::fabs(value) + s.bound)};
  }
};

/// Halves every other score.
struct Halve : SureSlope<Halve> {
  static constexpr const char* kName = "halve";
  static bool halves(const Place& at) { return (at.head + at.row + at.key) % 2 == 1; }
  template <class Real>
  static Real change(Real s, const Place& at) {
    return s * slope(s, at);
  }
  template <class Real>
  static Real slope(Real, const Place& at) {
    return halves(at) ? static_cast<Real>(0.5) : 1;
  }
  static WideScore expect(const WideScore& s, const Place& at, long double) {
    return halves(at) ? WideScore{s.value / 2, s.bound / 2 + 0x1p-150L} : s;
  }
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
  static WideScore expect(const WideScore& s, const Place& at, long double) {
    return {change(s.value, at), s.value - s.bound > 1.5L ? 0 : s.bound};
  }
  static WideScore expect_slope(const WideScore& s, const Place& at, long double) {
    if (std::fabs(s.value - 1.5L) <= s.bound && s.bound > 0) return {0.5L, 0.5L};  // either of them
    return {slope(s.value, at), 0};
  }
};

/// Gives every fifth place no weight.
struct Hide : SureSlope<Hide> {
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
  static WideScore expect(const WideScore& s, const Place& at, long double) {
    return {change(s.value, at), hides(at) ? 0 : s.bound};
  }
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
  static WideScore expect(const WideScore& s, const Place& at, long double unit) {
    const long double value = change(s.value, at);
    if (!std::isfinite(value)) return {value, 0};
    const long double moved = s.bound * (1 + (2 * std::fabs(s.value) + s.bound) / 16);
    // The sizes of all on the way.
    const long double size = std::fabs(s.value) + s.value * s.value / 16 + moved;
    return {value, moved + 3 * unit * (1 + unit) * size + 0x1p-150L};
  }
  static WideScore expect_slope(const WideScore& s, const Place& at, long double unit) {
    const long double value = slope(s.value, at);
    if (!std::isfinite(value)) return {value, 0};
    return {value, s.bound / 8 + unit * (std::fabs(value) + s.bound / 8) + 0x1p-150L};
  }
};

template <class Change>
ScoreFunction score_function() {
  return {Change::kName, change_tile<Change>, Change::expect, change_gradients<Change>,
          Change::expect_slope};
}

}  // namespace heed_test
