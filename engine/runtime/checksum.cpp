#include "engine/runtime/checksum.hpp"

#include <algorithm>
#include <cstring>

namespace heed {
namespace {

constexpr std::uint64_t kPrime1 = 0x9e3779b185ebca87;
constexpr std::uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
constexpr std::uint64_t kPrime3 = 0x165667b19e3779f9;
constexpr std::uint64_t kPrime4 = 0x85ebca77c2b2ae63;
constexpr std::uint64_t kPrime5 = 0x27d4eb2f165667c5;

std::uint64_t rotate_left(std::uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

/// A little-endian value.
template <class Number>
std::uint64_t number_at(const std::byte* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

std::uint64_t mixed(std::uint64_t lane, std::uint64_t number) {
  return rotate_left(lane + number * kPrime2, 31) * kPrime1;
}

}  // namespace

void Checksum::add_stripe(const std::byte* stripe) {
  for (std::uint64_t& lane : lanes_) {
    lane = mixed(lane, number_at<std::uint64_t>(stripe));
    stripe += sizeof lane;
  }
}

void Checksum::add(const void* bytes, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  const std::byte* const end = from + count;
  const std::size_t held = count_ % kStripe;
  count_ += count;
  if (held > 0) {
    const std::size_t more = std::min(count, kStripe - held);
    std::copy_n(from, more, rest_ + held);
    from += more;
    if (held + more < kStripe) return;
    add_stripe(rest_);
  }
  for (; end - from >= static_cast<std::ptrdiff_t>(kStripe); from += kStripe) add_stripe(from);
  std::copy(from, end, rest_);
}

std::uint64_t Checksum::value() const {
  std::uint64_t sum = kPrime5;
  if (count_ >= kStripe) {
    constexpr int kBits[4] = {1, 7, 12, 18};
    sum = 0;
    for (int i = 0; i < 4; ++i) sum += rotate_left(lanes_[i], kBits[i]);
    for (const std::uint64_t lane : lanes_) sum = (sum ^ mixed(0, lane)) * kPrime1 + kPrime4;
  }
  sum += count_;
  const std::byte* from = rest_;
  const std::byte* const end = rest_ + count_ % kStripe;
  for (; end - from >= 8; from += 8)
    sum = rotate_left(sum ^ mixed(0, number_at<std::uint64_t>(from)), 27) * kPrime1 + kPrime4;
  for (; end - from >= 4; from += 4)
    sum = rotate_left(sum ^ number_at<std::uint32_t>(from) * kPrime1, 23) * kPrime2 + kPrime3;
  for (; from != end; ++from)
    sum = rotate_left(sum ^ std::to_integer<std::uint64_t>(*from) * kPrime5, 11) * kPrime1;
  sum = (sum ^ sum >> 33) * kPrime2;
  sum = (sum ^ sum >> 29) * kPrime3;
  return sum ^ sum >> 32;
}

}  // namespace heed
