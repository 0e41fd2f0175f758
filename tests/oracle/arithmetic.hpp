// What the bounds know about heed's arithmetic, besides the model of rounding in
// oracle/rounding.hpp.
#pragma once

#include <limits>
#include <type_traits>

#include "tests/oracle/rounding.hpp"

namespace heed_test {

/// Real is the type that heed computes in, Wide the one that the oracle does. kUnit holds what both
/// of them lose in one operation.
template <class Real>
struct Arithmetic {
  using Wide = heed_test::Wide<Real>;
  static constexpr Wide kUnit = kUnitOf<Real>;
  static constexpr Wide kUnderflow = kUnderflowOf<Real>;
  static constexpr Wide kSmallest = kSmallestOf<Real>;
  static constexpr Wide kMax = std::numeric_limits<Real>::max();
  /// The number below, which the highest finite scores count as.
  static constexpr Wide kHighest =
      kMax - kMax / (2 / static_cast<Wide>(std::numeric_limits<Real>::epsilon()) - 1);

  /// Roundings of a constant. heed computes them in float64, by five operations at most: 1 /
  /// sqrt(D) is two, then log2(e), temperature or softcap, and a product. Next to the one rounding
  /// to float32 they are nothing: in every bound that uses this there is room for one more.
  static constexpr Wide kConstant = std::is_same_v<Real, float> ? 1 : 5;

  /// Whole numbers up to here are exact.
  static constexpr Wide kWhole = static_cast<Wide>(1ULL << std::numeric_limits<Real>::digits);
};

/// A number that heed computes, and how far off it may be; an infinite bound: unspecified.
template <class Wide>
struct Bounded {
  Wide value;
  Wide bound;
};

template <class Wide>
inline constexpr Wide kInfinite = std::numeric_limits<Wide>::infinity();

template <class Wide>
inline constexpr Wide kLn2Of = static_cast<Wide>(0.693147180559945309417232121458176568L);
template <class Wide>
inline constexpr Wide kLog2EOf = static_cast<Wide>(1.442695040888963407359924681001892137L);

}  // namespace heed_test
