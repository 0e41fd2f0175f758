// Memory for the tensors of refusals, whatever their type.
#pragma once

#include <cstddef>
#include <cstring>

namespace api_test {

/// Bytes in an output that no run writes.
inline constexpr unsigned char kPattern = 0x5c;

/// Memory for a small tensor, aligned for any type, with room for a misaligned pointer.
class Bytes {
 public:
  explicit Bytes(unsigned char fill = 0) { std::memset(memory_, fill, sizeof memory_); }
  void* at(std::size_t offset = 0) { return memory_ + offset; }
  const void* at(std::size_t offset = 0) const { return memory_ + offset; }
  void set(std::size_t index, float x) { std::memcpy(at(index * sizeof x), &x, sizeof x); }
  bool all_are(unsigned char fill) const {
    for (const unsigned char byte : memory_)
      if (byte != fill) return false;
    return true;
  }
  friend bool operator==(const Bytes& a, const Bytes& b) {
    return std::memcmp(a.memory_, b.memory_, sizeof a.memory_) == 0;
  }

 private:
  alignas(8) unsigned char memory_[4096];
};

}  // namespace api_test
