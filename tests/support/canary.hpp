// A NaN that no computation makes: where it survives, nobody has written, and where a result
// is NaN, somebody has read it.
#pragma once

#include <cstdint>
#include <cstring>

namespace heed_test {

inline constexpr std::uint32_t kCanaryBits = 0x7fc0beadU;

inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

inline float canary() { return float_of(kCanaryBits); }
inline bool is_canary(float x) { return bits_of(x) == kCanaryBits; }

}  // namespace heed_test
