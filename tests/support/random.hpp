// Random numbers that are the same on every platform and standard library.
#pragma once

#include <cstdint>
#include <vector>

namespace heed_test {

/// SplitMix64 (Steele, Lea & Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  /// In [0, 1).
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  /// In [low, high].
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }

  /// Mean 0, variance 1, and within +-3.5: a sum of four uniform numbers.
  template <class Real>
  Real normal() {
    return static_cast<Real>((unit() + unit() + unit() + unit() - 2) * 1.7320508075688772);
  }
  float normal() { return normal<float>(); }

  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(bits() % from.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace heed_test
