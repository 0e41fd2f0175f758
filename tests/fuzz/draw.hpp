// What a case is made of: the fuzzer's bytes, taken as numbers. Most make a valid problem; some are
// hostile.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>

#include "api/heed.h"
#include "tests/support/tensor.hpp"

namespace heed_test {

/// Whether a tensor is read or written: elements of an output must lie apart.
enum class Use { kRead, kWritten };

/// So many cases more.
void count_cases(int cases);

/// Enough for a case, as a fuzzer without feedback draws them.
class RandomBytes {
 public:
  explicit RandomBytes(std::uint64_t seed);
  const std::uint8_t* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::array<std::uint8_t, 256> bytes_;
};

class Draw {
 public:
  Draw(const std::uint8_t* data, std::size_t size) : from_(data, size) {}

  /// Never where the bytes have run out.
  bool one_in(int n) { return from_.ConsumeIntegralInRange<int>(1, n) == n; }
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return from_.ConsumeIntegralInRange<std::int64_t>(low, high);
  }
  /// 0 to most, as a choice of an enum.
  std::uint32_t choice(std::uint32_t most) {
    return from_.ConsumeIntegralInRange<std::uint32_t>(0, most);
  }
  std::uint64_t bits() { return from_.ConsumeIntegral<std::uint64_t>(); }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[from_.ConsumeIntegralInRange<std::size_t>(0, from.size() - 1)];
  }
  std::string text(std::size_t most) { return from_.ConsumeRandomLengthString(most); }
  std::string rest() { return from_.ConsumeRemainingBytesAsString(); }

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
  heed_layout layout(const Axes& shape, Use use, std::uint32_t dtype);
  /// Over [batch, head, row, key] of these sizes, any of them repeated.
  heed_score_layout score_layout(const Axes& pairs, std::uint32_t dtype);
  heed_matrix_layout matrix_layout(std::int64_t matrices, std::int64_t in, std::int64_t out,
                                   std::uint32_t dtype, Use use = Use::kRead);

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
  void plant(std::initializer_list<Tensor*> tensors);

 private:
  void spoil_pointer(unsigned char* bytes, std::size_t end,
                     std::initializer_list<std::size_t> keep);
  void overwrite(unsigned char* bytes, std::size_t first, std::size_t end);
  /// Sizes that may each be accepted, and whose products may not.
  void enlarge(unsigned char* bytes, std::size_t first, std::size_t end);

  FuzzedDataProvider from_;
};

/// How often the one case that the fuzzer's bytes make is damaged, each time in another way. The
/// process says at its end how many cases there were.
inline constexpr int kVariants = 63;

/// Calls once(draw, damaged): with the fuzzer's bytes and nothing damaged, and then with random
/// bytes that follow from them.
template <class Once>
void each_variant(Draw& draw, Once&& once) {
  const std::uint64_t seed = draw.bits();
  count_cases(1 + kVariants);
  once(draw, false);
  for (int n = 0; n < kVariants; ++n) {
    const RandomBytes bytes(seed + static_cast<std::uint64_t>(n));
    Draw random(bytes.data(), bytes.size());
    once(random, true);
  }
}

/// Planning takes microseconds, a run beside the oracle hundreds: not every variant is run.
inline bool worth_running(Draw& draw, bool damaged) { return !damaged || draw.one_in(12); }

}  // namespace heed_test
