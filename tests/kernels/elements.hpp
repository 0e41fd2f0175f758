// Elements in memory for the tests of read and write: what they are, and numbers that are hard to
// round to them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/kernels/support.hpp"
#include "tests/support/formats.hpp"

namespace heed_test {

template <class Real>
inline constexpr Format kFormatOf = sizeof(Real) == 4 ? kFloat32 : kFloat64;

inline std::size_t size_of(heed::ElementType type) {
  switch (type) {
    case heed::ElementType::kF32:
      return 4;
    case heed::ElementType::kF64:
      return 8;
    default:
      return 2;
  }
}

inline Format format_of(heed::ElementType type) {
  switch (type) {
    case heed::ElementType::kF32:
      return kFloat32;
    case heed::ElementType::kF64:
      return kFloat64;
    case heed::ElementType::kBf16:
      return kBfloat16;
    default:
      return kFloat16;
  }
}

/// An object of type T at any address.
template <class T>
T object_at(const unsigned char* at) {
  T object;
  std::memcpy(&object, at, sizeof object);
  return object;
}

inline double value_at(heed::ElementType type, const unsigned char* at) {
  if (type == heed::ElementType::kF32) return object_at<float>(at);
  if (type == heed::ElementType::kF64) return object_at<double>(at);
  return decode16(format_of(type), object_at<std::uint16_t>(at));
}

/// Numbers and how they are to be rounded.
template <class Real>
struct Roundings {
  std::vector<Real> from;
  std::vector<double> to;

  void add(Real x, const Format& format) {
    for (const Real y : {x, -x}) {
      from.push_back(y);
      to.push_back(nearest(format, y));
    }
  }
};

/// Every `step`-th number of the format, halfway to the next, and what lies beside these; what
/// lies past all numbers, and what is lost below them.
template <class Real>
Roundings<Real> roundings(const Format& format, std::uint64_t step) {
  Roundings<Real> all;
  const auto add = [&](Real x) {
    for (const Real toward : {Real{0}, x, kInf<Real>}) all.add(std::nextafter(x, toward), format);
  };
  const auto add_from = [&](std::uint64_t index) {
    const double low = number(format, index);
    const double high = number(format, index + 1);
    add(static_cast<Real>(low));
    add(static_cast<Real>(low + (high - low) / 2));
  };
  const std::uint64_t end = finite_count(format);
  const std::uint64_t normal = std::uint64_t{1} << (format.digits - 1);
  for (std::uint64_t index = 0; index < end; index += step) add_from(index);
  for (const std::uint64_t index : {normal - 2, normal - 1, normal, end - 3, end - 2, end - 1})
    add_from(index);
  for (const Real x : {std::numeric_limits<Real>::denorm_min(), std::numeric_limits<Real>::min(),
                       kMax<Real>, static_cast<Real>(number(format, end)), kInf<Real>})
    add(x);
  return all;
}

/// NaNs with one bit of payload each, the lowest included, which are not to become infinite.
template <class Real>
std::vector<Real> payloads() {
  std::vector<Real> all;
  for (int bit = 0; bit < std::numeric_limits<Real>::digits - 1; ++bit)
    for (const Real infinity : {kInf<Real>, -kInf<Real>})
      all.push_back(real_of<Real>(bits_of(infinity) | Bits<Real>{1} << bit));
  return all;
}

}  // namespace heed_test
