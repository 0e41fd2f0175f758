#include "perf/number.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "api/heed.h"

namespace heed::perf {
namespace {

template <class T>
T bits_at(const void* memory) {
  T bits;
  std::memcpy(&bits, memory, sizeof bits);
  return bits;
}

double read_bf16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  return static_cast<double>(bits_at<float>(&wide));
}

std::uint16_t to_bf16(double number) {
  const auto narrow = static_cast<float>(number);
  const auto bits = bits_at<std::uint32_t>(&narrow);
  if (std::isnan(narrow)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double read_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double magnitude = std::ldexp(fraction, -24);
  if (exponent == 31)
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  else if (exponent != 0)
    magnitude = std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::uint16_t to_f16(double number) {
  const unsigned sign = std::signbit(number) ? 0x8000 : 0;
  const double magnitude = std::fabs(number);
  if (std::isnan(number)) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (magnitude == 0) return static_cast<std::uint16_t>(sign);
  if (magnitude >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  // Neighbours lie 2^-24 apart up to 2^-13, from there on 1024 in every binade. What rounds up to
  // the next binade is one more in the bits too.
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent, -13);
  const double steps = std::nearbyint(std::ldexp(magnitude, 11 - exponent));
  const unsigned binade = static_cast<unsigned>(exponent + 13) << 10;
  return static_cast<std::uint16_t>(sign | (binade + static_cast<unsigned>(steps)));
}

}  // namespace

std::size_t size_of(std::uint32_t type) {
  return type == HEED_DTYPE_F64 ? 8 : type == HEED_DTYPE_F32 ? 4 : 2;
}

double read_number(std::uint32_t type, const void* memory) {
  switch (type) {
    case HEED_DTYPE_F64:
      return bits_at<double>(memory);
    case HEED_DTYPE_F32:
      return static_cast<double>(bits_at<float>(memory));
    case HEED_DTYPE_BF16:
      return read_bf16(bits_at<std::uint16_t>(memory));
    default:
      return read_f16(bits_at<std::uint16_t>(memory));
  }
}

void write_number(std::uint32_t type, double number, void* memory) {
  const auto narrow = static_cast<float>(number);
  if (type == HEED_DTYPE_F64) {
    std::memcpy(memory, &number, sizeof number);
  } else if (type == HEED_DTYPE_F32) {
    std::memcpy(memory, &narrow, sizeof narrow);
  } else {
    const std::uint16_t bits = type == HEED_DTYPE_BF16 ? to_bf16(number) : to_f16(number);
    std::memcpy(memory, &bits, sizeof bits);
  }
}

Rounding rounding_of(std::uint32_t type) {
  switch (type) {
    case HEED_DTYPE_F64:
      return {0x1p-53, 0x1p-1074};  // half of that is no number
    case HEED_DTYPE_F32:
      return {0x1p-24, 0x1p-150};
    case HEED_DTYPE_BF16:
      return {0x1p-8, 0x1p-134};
    default:
      return {0x1p-11, 0x1p-25};
  }
}

}  // namespace heed::perf
