// Structs of the C API with something wrong in them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/random.hpp"

namespace heed_test {

/// Mostly near a power of two of either sign: 2^31, 2^32, 2^40, 2^63 and so on; or small, or bits
/// of a double that computations stumble over.
std::uint64_t hostile_bits(Random& random);

/// A copy of a struct in memory that any struct_size may reach.
template <class T>
class Damaged {
 public:
  explicit Damaged(const T& fields) { std::memcpy(bytes_.data(), &fields, sizeof fields); }

  const T* get() const { return reinterpret_cast<const T*>(bytes_.data()); }
  /// What was done to it.
  std::string line() const { return line_.str(); }

  /// Another struct_size, and now and then something past the fields that the library knows.
  void resize(Random& random) {
    const std::int64_t size = random.integer(0, 3) == 0
                                  ? static_cast<std::int64_t>(hostile_bits(random) & 0xffffffffU)
                                  : random.integer(0, std::int64_t{sizeof(T)} + 24);
    put(0, 4, static_cast<std::uint64_t>(size));
    if (random.integer(0, 1) == 0) put(sizeof(T), 4, 1);
  }

  /// Overwrites a field or two from byte `first` on, or resizes it.
  void overwrite(Random& random, std::size_t first = 4) {
    if (random.integer(0, 7) == 0) return resize(random);
    for (std::int64_t n = random.integer(1, 2); n > 0; --n) {
      const std::size_t width = random.integer(0, 2) == 0 ? 4 : 8;
      const std::size_t begin = (first + width - 1) / width;
      const auto fields = static_cast<std::int64_t>(sizeof(T) / width - begin);
      put(width * (begin + static_cast<std::size_t>(random.integer(0, fields - 1))), width,
          hostile_bits(random));
    }
  }

  /// Makes a pointer NULL, takes it a byte further, or hands in `spare` where none is wanted. All
  /// fields after the first 8 bytes are pointers; those at the offsets in `keep` stay.
  void spoil_pointer(Random& random, std::initializer_list<std::size_t> keep, void* spare) {
    const std::size_t at =
        8 * static_cast<std::size_t>(random.integer(1, std::int64_t{sizeof(T)} / 8 - 1));
    if (std::count(keep.begin(), keep.end(), at) > 0) return;
    std::uintptr_t pointer = 0;
    std::memcpy(&pointer, bytes_.data() + at, sizeof pointer);
    const bool null = pointer == 0;
    if (null)
      pointer = reinterpret_cast<std::uintptr_t>(spare);
    else
      pointer = random.integer(0, 1) == 0 ? 0 : pointer + 1;
    std::memcpy(bytes_.data() + at, &pointer, sizeof pointer);
    line_ << ", pointer at byte " << at << (null ? " given" : pointer == 0 ? " NULL" : " off by 1");
  }

 private:
  void put(std::size_t at, std::size_t width, std::uint64_t bits) {
    std::memcpy(bytes_.data() + at, &bits, width);  // little-endian: the low half of it, or all
    line_ << ", byte " << at << " = " << static_cast<std::int64_t>(bits);
  }

  alignas(8) std::array<unsigned char, 8192> bytes_{};
  std::ostringstream line_;
};

}  // namespace heed_test
