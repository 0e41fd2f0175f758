// Formats of floating-point numbers in memory, and rounding to them, by arithmetic in float64
// alone: nothing here looks at the bits of a float32 or float64, or leaves rounding to a cast.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace heed_test {

/// Binary formats of IEEE 754, and bfloat16 and OCP's E4M3, which are laid out like them.
struct Format {
  int digits;              ///< of the significand, the leading one included
  int smallest_exponent;   ///< the smallest normal number is 2 to this
  int largest_exponent;    ///< the first number too large is 2 to this plus one
  bool saturates = false;  ///< the largest number is NaN instead, and what is past the others
                           ///< becomes the largest of them: there is no infinity
};

inline constexpr Format kFloat8 = {4, -6, 8, true};
inline constexpr Format kFloat16 = {11, -14, 15};
inline constexpr Format kBfloat16 = {8, -126, 127};
inline constexpr Format kFloat32 = {24, -126, 127};
inline constexpr Format kFloat64 = {53, -1022, 1023};

/// How many numbers from 0 on are finite.
inline std::uint64_t finite_count(const Format& f) {
  const auto exponents = static_cast<std::uint64_t>(f.largest_exponent - f.smallest_exponent + 2);
  return (exponents << (f.digits - 1)) - (f.saturates ? 1 : 0);
}

/// The numbers from 0 on, counted upwards; what would follow the largest one, after that.
inline double number(const Format& f, std::uint64_t index) {
  const std::uint64_t per_exponent = std::uint64_t{1} << (f.digits - 1);
  const auto field = static_cast<int>(index / per_exponent);
  const std::uint64_t mantissa = index % per_exponent + (field == 0 ? 0 : per_exponent);
  const int exponent = f.smallest_exponent + (field == 0 ? 0 : field - 1);
  return std::ldexp(static_cast<double>(mantissa), exponent - f.digits + 1);
}

/// x rounded to the nearest number of the format, of two equally near ones to that whose last
/// digit is even; infinite from halfway between the largest number and what would follow it, unless
/// the format saturates.
inline double nearest(const Format& f, double x) {
  if (f.saturates && std::fabs(x) > number(f, finite_count(f) - 1))
    return std::copysign(number(f, finite_count(f) - 1), x);
  if (std::isnan(x) || std::isinf(x) || x == 0) return x;
  const double magnitude = std::fabs(x);
  const int exponent = std::ilogb(magnitude);
  const int last = (exponent < f.smallest_exponent ? f.smallest_exponent : exponent) - f.digits + 1;
  const double digits = std::ldexp(magnitude, -last);  // exact: at most 53 digits, not tiny
  double whole = std::floor(digits);
  const double rest = digits - whole;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) != 0)) whole += 1;
  const double rounded = std::ldexp(whole, last);
  const bool overflow = std::ldexp(whole, last - f.largest_exponent) >= 2;
  return std::copysign(overflow ? HUGE_VAL : rounded, x);
}

/// The number that the bits of a narrow format stand for.
inline double decode_narrow(const Format& f, std::uint64_t bits) {
  const std::uint64_t infinity = finite_count(f);
  const std::uint64_t sign = f.saturates ? 0x80 : 0x8000;
  const std::uint64_t magnitude = bits & (sign - 1);
  const double x = magnitude < infinity ? number(f, magnitude)
                   : magnitude == infinity && !f.saturates
                       ? HUGE_VAL
                       : std::numeric_limits<double>::quiet_NaN();
  return (bits & sign) != 0 ? -x : x;
}

}  // namespace heed_test
