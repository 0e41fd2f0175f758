// What stands out among the numbers of a tensor: NaN, infinities, and magnitudes that hint at
// another dtype.
#pragma once

#include <cstdint>

#include "engine/check/operands.hpp"
#include "engine/context/context.hpp"

namespace heed {

/// Some of a tensor's elements: [begin, end) of each axis.
struct Box {
  std::int64_t begin[4];
  std::int64_t end[4];
};

/// All of them.
Box whole(const Operand& operand);

class Numbers {
 public:
  /// Where -inf has a meaning it is not counted.
  enum class MinusInfinity { kCounts, kMeansMasked };

  Numbers(const heed_context& context, const Operand& operand,
          MinusInfinity minus_infinity = MinusInfinity::kCounts)
      : read_(context.kernels->f64.numbers.read),
        operand_(operand),
        minus_infinity_is_odd_(minus_infinity == MinusInfinity::kCounts) {}

  void count(const Box& box);
  /// Tells on stderr what stands out among all that was counted, if anything does.
  void tell_odd() const;

 private:
  void count(double x, const std::int64_t (&place)[4]);
  bool unlikely(double magnitude) const;
  bool suggests_other_type() const;

  decltype(NumberKernels<double>::read) read_;
  const Operand& operand_;
  const bool minus_infinity_is_odd_;
  std::int64_t all_ = 0;
  std::int64_t nan_ = 0;
  std::int64_t infinite_ = 0;
  std::int64_t first_[4] = {};  ///< place of the first of them
  std::int64_t nonzero_ = 0;    ///< and finite
  std::int64_t negative_ = 0;
  std::int64_t unlikely_ = 0;
  double smallest_ = 0;
  double largest_ = 0;  ///< magnitudes
};

/// The same for all numbers of a tensor; nullptr: it is not there.
void tell_odd_numbers(const heed_context& context, const Operand* operand,
                      Numbers::MinusInfinity minus_infinity = Numbers::MinusInfinity::kCounts);

}  // namespace heed
