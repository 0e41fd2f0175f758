// One number that heed should compute, how far off it may be, and how a result compares.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/oracle/dtype.hpp"

namespace heed_test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Element {
  double value;
  double bound;  ///< 0: exactly value; infinite: anything, NaN included
  bool written = true;
};

inline constexpr Element kUnwritten = {0, 0, false};
inline constexpr Element kUnspecified = {0, kInfinity, true};

/// value within bound, as heed computes it, rounded once more to the type of an output. `computed`
/// is the type that it had before: a type at least as precise adds nothing.
///
/// Rounding x is off by half a last digit, unit |x|, or half the smallest number. Past the largest
/// number and half a digit the result is infinite; where it may lie on either side nobody knows.
template <class Wide>
Element stored(Wide value, Wide bound, std::uint32_t dtype, std::uint32_t computed) {
  if (std::isnan(bound) || std::isinf(bound)) return kUnspecified;
  if (!std::isfinite(value)) return {static_cast<double>(value), 0};
  if (value == 0 && bound == 0) return {0, 0};
  const Format& to = format_of(dtype);
  if (to.digits < format_of(computed).digits) {
    const Wide size = std::fabs(value) + bound;
    const auto unit = static_cast<Wide>(to.unit);
    const Wide overflow = static_cast<Wide>(to.largest) / (1 - unit) * (1 - unit / 2);
    if (std::fabs(value) - bound >= overflow)
      return {std::copysign(kInfinity, static_cast<double>(value)), 0};
    if (size >= overflow) return kUnspecified;
    bound += std::max(unit * size, std::ldexp(static_cast<Wide>(0.5), to.lowest));
  }
  // What is kept is float64: the rest is added to the bound, and that rounded up.
  const auto kept = static_cast<double>(value);
  const Wide rest = std::fabs(value - static_cast<Wide>(kept));
  return {kept, static_cast<double>((bound + rest) * (1 + static_cast<Wide>(0x1p-50)))};
}

/// The same of a log-sum-exp, which stays finite.
template <class Wide>
Element stored_lse(Wide value, Wide bound, std::uint32_t dtype) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const bool narrow = dtype == HEED_DTYPE_F32 && std::isfinite(value);
  if (narrow && value < -static_cast<Wide>(kMost)) return {-kMost, 0};
  if (narrow && value > static_cast<Wide>(kMost)) return {0x1.fffffcp127, 0};
  return stored(value, bound, dtype, HEED_DTYPE_F64);
}

/// How a result compares with the oracle.
struct Verdict {
  double ratio = 0;             ///< the largest error / bound; infinite where a result is wrong
  std::size_t at = 0;           ///< where that is
  std::size_t unspecified = 0;  ///< elements without a bound
};

inline double ratio_of(double got, const Element& want) {
  if (std::isnan(want.value)) return std::isnan(got) ? 0 : kInfinity;
  if (got == want.value) return 0;
  if (!std::isfinite(got) || std::isinf(want.value)) return kInfinity;
  return std::fabs(got - want.value) / want.bound;
}

inline double ratio_of(double got, bool written, const Element& want) {
  if (written != want.written) return kInfinity;
  return written ? ratio_of(got, want) : 0;
}

/// Numbers are anything with size(), [i] and, if it can tell, written(i).
inline bool is_written(const std::vector<float>&, std::size_t) { return true; }
template <class Numbers>
bool is_written(const Numbers& numbers, std::size_t i) {
  return numbers.written(i);
}

template <class Numbers>
Verdict compare(const Numbers& got, const std::vector<Element>& want) {
  Verdict verdict;
  if (got.size() != want.size()) verdict.ratio = kInfinity;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    if (std::isinf(want[i].bound)) {
      ++verdict.unspecified;
      continue;
    }
    const double ratio = ratio_of(static_cast<double>(got[i]), is_written(got, i), want[i]);
    if (!(ratio <= verdict.ratio)) {
      verdict.ratio = ratio;
      verdict.at = i;
    }
  }
  return verdict;
}

}  // namespace heed_test
