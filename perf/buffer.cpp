#include "perf/buffer.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace heed::perf {

Buffer::Buffer(std::size_t count) : count_(count) {
  constexpr std::size_t line = 64;
  const std::size_t bytes = (count * sizeof(float) + line - 1) / line * line;
  data_.reset(static_cast<float*>(std::aligned_alloc(line, std::max(bytes, line))));
  if (data_ == nullptr) throw std::bad_alloc();
}

void Buffer::Free::operator()(float* memory) const { std::free(memory); }

/// splitmix64.
std::uint64_t Random::bits() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

float Random::normal() {
  const std::uint64_t z = bits();
  const std::uint64_t sum = (z & 0xffff) + ((z >> 16) & 0xffff) + ((z >> 32) & 0xffff) + (z >> 48);
  return (static_cast<float>(sum) / 65535.0F - 2.0F) * 1.7320508F;
}

bool Random::with_probability(double share) {
  return static_cast<double>(bits() >> 11) * 0x1p-53 < share;
}

std::uint32_t Random::below(std::uint32_t count) {
  return static_cast<std::uint32_t>((bits() >> 32) * count >> 32);
}

void fill_random(Buffer& buffer, unsigned seed) {
  Random random(seed);
  for (float& x : buffer) x = random.normal();
}

}  // namespace heed::perf
