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

WideScore Halve::expect(const WideScore& s, const Place& at, long double) {
  return halves(at) ? WideScore{s.value / 2, s.error / 2 + 0x1p-150L} : s;
}

WideScore Ceiling::expect(const WideScore& s, const Place&, long double) {
  if (!(s.value > 1.5L)) return s;
  return {1.5L, s.value - s.error > 1.5L ? 0 : s.error};
}

WideScore Hide::expect(const WideScore& s, const Place& at, long double) {
  return hides(at) ? WideScore{-std::numeric_limits<long double>::infinity(), 0} : s;
}

template ScoreFunction score_function<Shift>();
template ScoreFunction score_function<Halve>();
template ScoreFunction score_function<Ceiling>();
template ScoreFunction score_function<Hide>();

}  // namespace heed_test
