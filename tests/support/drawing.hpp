// What all random problems are drawn with.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/oracle/element.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tensor.hpp"

namespace heed_test {

class Drawing {
 protected:
  explicit Drawing(std::uint64_t seed) : random_(seed) {}

  bool one_in(std::int64_t n) { return random_.integer(0, n - 1) == 0; }

  template <class T>
  T pick(const std::vector<T>& from) {
    return random_.pick(from);
  }

  double uniform(double low, double high) { return low + (high - low) * random_.unit(); }

  Arrangement draw_arrangement() {
    if (one_in(2)) return Arrangement::kDefault;
    return static_cast<Arrangement>(
        random_.integer(0, static_cast<std::int64_t>(Arrangement::kCount) - 1));
  }

  /// An infinity or NaN anywhere.
  void plant(Tensor& tensor) {
    Axes at{};
    for (std::size_t axis = 0; axis < 4; ++axis) {
      if (tensor.shape()[axis] == 0) return;
      at[axis] = random_.integer(0, tensor.shape()[axis] - 1);
    }
    tensor.set(at, pick<double>({kNaN, kInfinity, -kInfinity}));
  }

  Random random_;
};

}  // namespace heed_test
