// Bytes on their way: to and from files, pipes and sockets that a caller has opened, and a checksum
// of bytes that come in portions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heed {

/// Writes all of it. Throws an Error, HEED_STATUS_IO, that names the descriptor and the system's
/// words; a pipe that nobody reads is such an error, and raises no SIGPIPE.
void write_all(int descriptor, const std::byte* bytes, std::size_t count);

/// Reads the bytes that are there, at least one byte and `most` at most; 0 at the end. Throws
/// likewise.
std::size_t read_some(int descriptor, std::byte* bytes, std::size_t most);

/// XXH64 with seed 0. Source: Y. Collet, "xxHash fast digest algorithm".
class Checksum {
 public:
  void add(const void* bytes, std::size_t count);
  /// The checksum of all bytes so far.
  std::uint64_t value() const;

 private:
  static constexpr std::size_t kStripe = 32;

  void add_stripe(const std::byte* stripe);

  std::uint64_t lanes_[4] = {0x60ea27eeadc0b5d6, 0xc2b2ae3d27d4eb4f, 0, 0x61c8864e7a143579};
  std::uint64_t count_ = 0;
  std::byte rest_[kStripe];  ///< count_ % kStripe bytes that fill no stripe yet
};

}  // namespace heed
