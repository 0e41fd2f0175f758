#include "tests/support/score_functions.hpp"

#include <cmath>

namespace heed_test {

bool sensible(const heed_score_tile& tile, const heed_attention_desc& desc) {
  bool good = tile.struct_size == sizeof tile && tile.dtype == real_dtype(desc) &&
              tile.batch >= 0 && tile.batch < desc.batch && tile.first_key >= 0 && tile.keys >= 0 &&
              tile.first_key + tile.keys <= desc.key_length && tile.rows <= tile.stride_key;
  for (Index r = 0; good && r < tile.rows; ++r)
    good = tile.query_rows[r] >= 0 && tile.query_rows[r] < desc.query_length &&
           tile.query_heads[r] >= 0 && tile.query_heads[r] < desc.query_heads;
  return good;
}

int Shift::steps(const Place& at) {
  return static_cast<int>((3 * at.batch + 7 * at.head + 3 * at.row + 5 * at.key) % 11) - 5;
}

WideScore Shift::expect(const WideScore& s, const Place& at, long double unit) {
  const long double value = s.value + 0.25L * steps(at);
  if (std::isinf(value)) return {value, s.error};
  return {value, s.error + unit * (std::fabs(value) + s.error)};
}

WideScore Shift::expect_slope(const WideScore&, const Place&, long double) { return {1, 0}; }

WideScore Halve::expect(const WideScore& s, const Place& at, long double) {
  return halves(at) ? WideScore{s.value / 2, s.error / 2 + 0x1p-150L} : s;
}

WideScore Halve::expect_slope(const WideScore&, const Place& at, long double) {
  return {halves(at) ? 0.5L : 1, 0};
}

WideScore Ceiling::expect(const WideScore& s, const Place&, long double) {
  if (!(s.value > 1.5L)) return s;
  return {1.5L, s.value - s.error > 1.5L ? 0 : s.error};
}

WideScore Ceiling::expect_slope(const WideScore& s, const Place&, long double) {
  if (std::fabs(s.value - 1.5L) <= s.error && s.error > 0) return {0.5L, 0.5L};  // either of them
  return {s.value > 1.5L ? 0.0L : 1, 0};
}

WideScore Hide::expect(const WideScore& s, const Place& at, long double) {
  return hides(at) ? WideScore{-std::numeric_limits<long double>::infinity(), 0} : s;
}

WideScore Hide::expect_slope(const WideScore&, const Place& at, long double) {
  return {hides(at) ? 0.0L : 1, 0};
}

WideScore Bend::expect(const WideScore& s, const Place&, long double unit) {
  const long double square = s.value * s.value / 16;
  const long double value = s.value + square;
  if (!std::isfinite(value)) return {value, 0};
  const long double moved = s.error * (1 + (2 * std::fabs(s.value) + s.error) / 16);
  const long double size = std::fabs(s.value) + square + moved;  // of all on the way
  return {value, moved + 3 * unit * (1 + unit) * size + 0x1p-150L};
}

WideScore Bend::expect_slope(const WideScore& s, const Place&, long double unit) {
  const long double value = 1 + s.value / 8;
  if (!std::isfinite(value)) return {value, 0};
  return {value, s.error / 8 + unit * (std::fabs(value) + s.error / 8) + 0x1p-150L};
}

template ScoreFunction score_function<Shift>();
template ScoreFunction score_function<Halve>();
template ScoreFunction score_function<Ceiling>();
template ScoreFunction score_function<Hide>();
template ScoreFunction score_function<Bend>();

}  // namespace heed_test
