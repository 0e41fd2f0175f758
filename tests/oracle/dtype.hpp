// The types of numbers in memory, read and written one by one, slowly and plainly.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "api/heed.h"

namespace heed_test {

/// Masks are made of bytes: a type that only tests give a number.
inline constexpr std::uint32_t kByte = 100;

/// What a type can hold. Rounding to it is off by unit |x| or by underflow, whichever is larger.
struct Format {
  int bytes;
  int digits;      ///< binary digits of a normal number
  int lowest;      ///< exponent of the smallest positive number
  double largest;  ///< past this and half a last digit everything is infinite
  double unit;     ///< 2^-digits
};

inline const Format& format_of(std::uint32_t dtype) {
  static const Format kFormats[] = {
      {4, 24, -149, 0x1.fffffep127, 0x1p-24},
      {8, 53, -1074, 0x1.fffffffffffffp1023, 0x1p-53},
      {2, 8, -133, 0x1.fep127, 0x1p-8},
      {2, 11, -24, 65504, 0x1p-11},
      {1, 7, 0, 127, 0x1p-7},
      {1, 4, -9, 448, 0x1p-4},
      {1, 8, 0, 255, 0x1p-8},
  };
  return kFormats[dtype == kByte ? 6 : dtype == HEED_DTYPE_DEFAULT ? 0 : dtype - HEED_DTYPE_F32];
}

inline const char* name_of_dtype(std::uint32_t dtype) {
  constexpr const char* kNames[] = {"default", "f32", "f64", "bf16", "f16", "i8", "f8"};
  return dtype == kByte ? "byte" : kNames[dtype];
}

/// Whether scales that lie elsewhere multiply the numbers.
inline bool is_scaled(std::uint32_t dtype) {
  return dtype == HEED_DTYPE_I8 || dtype == HEED_DTYPE_F8_E4M3;
}

/// x to nearest even, as a type of that many digits and that smallest exponent holds it.
inline double rounded(double x, const Format& format) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int last =
      exponent - format.digits > format.lowest ? exponent - format.digits : format.lowest;
  const double y = std::ldexp(std::nearbyint(std::ldexp(x, -last)), last);
  return std::fabs(y) <= format.largest ? y
                                        : std::copysign(std::numeric_limits<double>::infinity(), y);
}

inline std::uint64_t float_bits(double x) {
  const auto value = static_cast<float>(x);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline double from_float_bits(std::uint64_t bits) {
  const auto narrow = static_cast<std::uint32_t>(bits);
  float value = 0;
  std::memcpy(&value, &narrow, sizeof value);
  return static_cast<double>(value);
}

/// The magnitude of a number that a type with so many bits of mantissa, and an exponent of that
/// bias, holds; and the other way.
inline std::uint64_t magnitude_bits(double size, int mantissa, int bias) {
  const double smallest = std::ldexp(1.0, 1 - bias);
  if (size < smallest) return static_cast<std::uint64_t>(std::ldexp(size, bias - 1 + mantissa));
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  const auto all = static_cast<std::uint64_t>(std::ldexp(fraction, mantissa + 1));
  return static_cast<std::uint64_t>(exponent - 2 + bias) * (std::uint64_t{1} << mantissa) + all;
}

inline double from_magnitude_bits(std::uint64_t bits, int mantissa, int bias) {
  const std::uint64_t one = std::uint64_t{1} << mantissa;
  const auto exponent = static_cast<int>(bits >> mantissa);
  const std::uint64_t digits = exponent == 0 ? bits : (bits & (one - 1)) | one;
  return std::ldexp(static_cast<double>(digits), (exponent == 0 ? 1 : exponent) - bias - mantissa);
}

/// A number that binary16 holds, as its bits.
inline std::uint64_t half_bits(double x) {
  const std::uint64_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | 0x7e00;
  if (std::isinf(x)) return sign | 0x7c00;
  return sign | magnitude_bits(std::fabs(x), 10, 15);
}

inline double from_half_bits(std::uint64_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if ((bits & 0x7fff) > 0x7c00) return std::numeric_limits<double>::quiet_NaN();
  if ((bits & 0x7fff) == 0x7c00) return sign * std::numeric_limits<double>::infinity();
  return sign * from_magnitude_bits(bits & 0x7fff, 10, 15);
}

/// The same for OCP's E4M3, which has a NaN and no infinity.
inline std::uint64_t e4m3_bits(double x) {
  const std::uint64_t sign = std::signbit(x) ? 0x80 : 0;
  return sign | (std::isnan(x) ? 0x7f : magnitude_bits(std::fabs(x), 3, 7));
}

inline double from_e4m3_bits(std::uint64_t bits) {
  if ((bits & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  return ((bits & 0x80) != 0 ? -1 : 1) * from_magnitude_bits(bits & 0x7f, 3, 7);
}

/// x, but at most the largest number of the type.
inline double saturated(double x, std::uint32_t dtype) {
  const double largest = format_of(dtype).largest;
  return std::fabs(x) > largest ? std::copysign(largest, x) : x;
}

/// The bits of x, rounded to nearest even; types without infinity saturate.
inline std::uint64_t encode(std::uint32_t dtype, double x) {
  std::uint64_t bits = 0;
  switch (dtype) {
    case HEED_DTYPE_F64:
      std::memcpy(&bits, &x, sizeof bits);
      return bits;
    case HEED_DTYPE_BF16:
      return std::isnan(x) ? 0x7fc0 : float_bits(rounded(x, format_of(dtype))) >> 16;
    case HEED_DTYPE_F16:
      return half_bits(rounded(x, format_of(dtype)));
    case HEED_DTYPE_I8:
      return std::isnan(x) ? 0
                           : static_cast<std::uint8_t>(
                                 static_cast<std::int8_t>(std::nearbyint(saturated(x, dtype))));
    case HEED_DTYPE_F8_E4M3:
      return e4m3_bits(rounded(saturated(x, dtype), format_of(dtype)));
    case kByte:
      return static_cast<std::uint64_t>(x);
    default:
      return float_bits(x);
  }
}

/// The number that the bits are, exactly.
inline double decode(std::uint32_t dtype, std::uint64_t bits) {
  double x = 0;
  switch (dtype) {
    case HEED_DTYPE_F64:
      std::memcpy(&x, &bits, sizeof x);
      return x;
    case HEED_DTYPE_BF16:
      return from_float_bits(bits << 16);
    case HEED_DTYPE_F16:
      return from_half_bits(bits);
    case HEED_DTYPE_I8:
      return static_cast<std::int8_t>(bits);
    case HEED_DTYPE_F8_E4M3:
      return from_e4m3_bits(bits);
    case kByte:
      return static_cast<double>(bits);
    default:
      return from_float_bits(bits);
  }
}

template <class Bits>
std::uint64_t load_bits(const void* data, std::int64_t index) {
  Bits bits;
  std::memcpy(&bits, static_cast<const Bits*>(data) + index, sizeof bits);
  return bits;
}

/// The bits of element `index` of an array.
inline std::uint64_t load_bits(std::uint32_t dtype, const void* data, std::int64_t index) {
  switch (dtype) {
    case HEED_DTYPE_F64:
      return load_bits<std::uint64_t>(data, index);
    case HEED_DTYPE_BF16:
    case HEED_DTYPE_F16:
      return load_bits<std::uint16_t>(data, index);
    case HEED_DTYPE_I8:
    case HEED_DTYPE_F8_E4M3:
    case kByte:
      return load_bits<std::uint8_t>(data, index);
    default:
      return load_bits<std::uint32_t>(data, index);
  }
}

/// The same, written (little-endian machines only, as heed's are).
inline void store_bits(std::uint32_t dtype, void* data, std::int64_t index, std::uint64_t bits) {
  const auto bytes = format_of(dtype).bytes;
  std::memcpy(static_cast<unsigned char*>(data) + index * bytes, &bits,
              static_cast<std::size_t>(bytes));
}

}  // namespace heed_test
