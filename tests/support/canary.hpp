// A NaN that no computation makes: where it survives, nobody has written, and where a result
// is NaN, somebody has read it.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace heed_test {

/// The same 16 bits over and over: a NaN whether they are read as float16, bfloat16, float32 or
/// float64, so that memory full of canaries of one type is full of canaries of every type.
inline constexpr std::uint32_t kCanaryBits = 0x7ffc7ffcU;
inline constexpr std::uint64_t kCanaryBits64 = 0x7ffc7ffc7ffc7ffcU;

inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline std::uint64_t bits_of(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

inline double double_of(std::uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// The unsigned integer as wide as Real.
template <class Real>
using Bits = decltype(bits_of(Real{}));

template <class Real>
Real real_of(Bits<Real> bits) {
  if constexpr (std::is_same_v<Real, float>) return float_of(bits);
  if constexpr (std::is_same_v<Real, double>) return double_of(bits);
}

inline float canary() { return float_of(kCanaryBits); }

template <class Real>
Real canary_of() {
  return real_of<Real>(static_cast<Bits<Real>>(kCanaryBits64));
}

/// A function for both types that can be passed to an algorithm.
struct IsCanary {
  bool operator()(float x) const { return bits_of(x) == kCanaryBits; }
  bool operator()(double x) const { return bits_of(x) == kCanaryBits64; }
};
inline constexpr IsCanary is_canary{};

}  // namespace heed_test
