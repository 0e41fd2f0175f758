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

/// A number that binary16 holds, as its bits.
inline std::uint64_t half_bits(double x) {
  const std::uint64_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | 0x7e00;
  const double size = std::fabs(x);
  if (std::isinf(x)) return sign | 0x7c00;
  if (size < 0x1p-14) return sign | static_cast<std::uint64_t>(size * 0x1p24);
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<std::uint64_t>(fraction * 2048) & 0x3ff;
  return sign | static_cast<std::uint64_t>(exponent + 14) << 10 | mantissa;
}

inline double from_half_bits(std::uint64_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> 10 & 0x1f);
  const auto mantissa = static_cast<double>(bits & 0x3ff);
  if (exponent == 0) return sign * mantissa * 0x1p-24;
  if (exponent == 31)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

/// The same for OCP's E4M3, which has a NaN and no infinity.
inline std::uint64_t e4m3_bits(double x) {
  const std::uint64_t sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x)) return sign | 0x7f;
  const double size = std::fabs(x);
  if (size < 0x1p-6) return sign | static_cast<std::uint64_t>(size * 0x1p9);
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<std::uint64_t>(fraction * 16) & 7;
  return sign | static_cast<std::uint64_t>(exponent + 6) << 3 | mantissa;
}

inline double from_e4m3_bits(std::uint64_t bits) {
  const double sign = (bits & 0x80) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> 3 & 0xf);
  const auto mantissa = static_cast<double>(bits & 7);
  if ((bits & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  return exponent == 0 ? sign * mantissa * 0x1p-9 : sign * std::ldexp(8 + mantissa, exponent - 10);
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
