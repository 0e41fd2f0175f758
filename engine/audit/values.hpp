// What stands out among the values of a tensor: NaN, infinities, and magnitudes that hint at
// another dtype.
#pragma once

#include <cstdint>

#include "engine/audit/tensors.hpp"
#include "engine/context/context.hpp"

namespace heed {

/// Some of a tensor's elements: [begin, end) of each axis.
struct Box {
  std::int64_t begin[4];
  std::int64_t end[4];
};

/// All of them.
Box whole(const GivenTensor& tensor);

class Values {
 public:
  Values(const heed_context& context, const GivenTensor& tensor)
      : read_(context.kernels->f64.numbers.read), tensor_(tensor) {}

  void count(const Box& box);
  /// Tells on stderr what stands out among all that was counted, if anything does.
  void tell_odd() const;

 private:
  void count(double x, const std::int64_t (&place)[4]);
  bool unlikely(double magnitude) const;
  bool suggests_other_type() const;

  decltype(NumberKernels<double>::read) read_;
  const GivenTensor& tensor_;
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

}  // namespace heed
