// What problems are drawn with: the bytes of a fuzzer, taken as numbers, or the random numbers of a
// seed. Most of it makes valid problems; some is hostile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/element.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

/// Whether a tensor is read or written: elements of an output must lie apart.
enum class Use { kRead, kWritten };

/// Of numbers that a fuzzer or a seed draws.
inline void fill_normally(Tensor& tensor, std::uint64_t seed) {
  Random random(seed);
  tensor.fill([&] { return random.normal(); });
}

class Draw {
 public:
  /// From bytes, the last first. Where they have run out, every choice is the first.
  Draw(const std::uint8_t* data, std::size_t size) : bytes_(data), size_(size) {}
  /// From as many random bytes as it takes.
  explicit Draw(std::uint64_t seed) : random_(seed), seeded_(true) {}

  /// Never where the bytes have run out.
  bool one_in(std::int64_t n) { return integer(1, n) == n; }
  /// In [low, high].
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return static_cast<std::int64_t>(
        static_cast<std::uint64_t>(low) +
        below(static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low)));
  }
  std::size_t index(std::size_t count) { return static_cast<std::size_t>(below(count - 1)); }
  /// 0 to most, as a choice of an enum.
  std::uint32_t choice(std::uint32_t most) { return static_cast<std::uint32_t>(below(most)); }
  /// The same from the front of a fuzzer's bytes, so that others are drawn as they were before. A
  /// choice that runs out is the first.
  std::uint32_t from_front(std::uint32_t most);
  bool from_front_one_in(std::uint32_t n) { return from_front(n - 1) == n - 1; }
  std::uint64_t bits() { return below(~std::uint64_t{0}); }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(below((std::uint64_t{1} << 53U) - 1)) * 0x1p-53;
  }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[index(from.size())];
  }
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[index(from.size())];
  }
  /// At most `most` bytes, up to a backslash before another character.
  std::string text(std::size_t most);
  std::string rest();

  /// Numbers for tensors, which would be too many to draw one by one.
  Random numbers() { return Random(bits()); }

  /// A size that problems have: small, often 1, now and then not so small.
  std::int64_t size(std::int64_t low) {
    if (one_in(4)) return 1;
    return one_in(8) ? integer(low, 70) : integer(low, low + 8);
  }
  /// Anything, mostly near a power of two of either sign: 2^31, 2^32, 2^40, 2^63 and so on.
  std::int64_t hostile();
  /// Any double, mostly one that computations stumble over.
  double real();
  std::uint32_t dtype() { return choice(HEED_DTYPE_F16); }
  /// Any but float64, or nothing but float64, which 0 also stands for if it is the default there.
  std::uint32_t dtype(bool float64, bool arithmetic_is_default);

  /// Strides of a valid layout: all 0, or axes in any order and direction, with gaps. Where there
  /// is nothing to step to, anything.
  Axes strides(const Axes& shape, Use use);
  /// Whether strides of a valid layout are explicit: if they are all 0, only of what repeats.
  std::uint32_t reserved(const Axes& strides, Use use);
  /// Over [batch, head, row, key] of these sizes, any of them repeated.
  heed_score_layout score_layout(const Axes& pairs, std::uint32_t dtype);

  /// Overwrites some fields from byte `first` on, mostly with hostile numbers.
  template <class T>
  void damage(T& fields, std::size_t first = 4) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &fields, sizeof bytes);
    const bool sizes = one_in(4);
    for (std::int64_t n = integer(1, 3); n > 0; --n)
      sizes ? enlarge(bytes, first, sizeof bytes) : overwrite(bytes, first, sizeof bytes);
    std::memcpy(&fields, bytes, sizeof bytes);
  }

  /// Makes some pointers of arguments NULL, or takes them a byte further, so that they are
  /// misaligned. All fields after the first 8 bytes are pointers; those at the offsets in `keep`
  /// stay.
  template <class T>
  bool damage_pointers(T& args, std::initializer_list<std::size_t> keep) {
    if (!one_in(8)) return false;
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &args, sizeof bytes);
    spoil_pointer(bytes, sizeof bytes, keep);
    std::memcpy(&args, bytes, sizeof bytes);
    return true;
  }

  /// Puts an infinity or a NaN into one of the tensors.
  void plant(const std::vector<Tensor*>& tensors);
  void plant(Tensor& tensor) { plant({&tensor}); }

  Arrangement arrangement() {
    if (one_in(2)) return Arrangement::kDefault;
    return static_cast<Arrangement>(choice(static_cast<std::uint32_t>(Arrangement::kCount) - 1));
  }

  /// A number that biases far away share, of either sign: what a float32 has few digits beside, and
  /// what it cannot hold. Those of another type than float64 become its largest at most.
  double far_away(std::uint32_t dtype);
  /// Moves whole rows of a bias as far, alike or with what they hold beside it. Keys that are -inf
  /// stay masked.
  void move_rows(Tensor& bias, std::size_t axis);

 private:
  void spoil_pointer(unsigned char* bytes, std::size_t end,
                     std::initializer_list<std::size_t> keep);
  void overwrite(unsigned char* bytes, std::size_t first, std::size_t end);
  /// Sizes that may each be accepted, and whose products may not.
  void enlarge(unsigned char* bytes, std::size_t first, std::size_t end);

  /// A byte of a text: a fuzzer's from the front, where it sees them side by side.
  char first();
  /// In [0, most], from as few bytes as hold it.
  std::uint64_t below(std::uint64_t most);

  const std::uint8_t* bytes_ = nullptr;
  std::size_t size_ = 0;
  Random random_{0};
  bool seeded_ = false;
};

}  // namespace heed_test
