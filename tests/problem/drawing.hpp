// What all random problems are drawn with.
#pragma once

#include <algorithm>
#include <cmath>
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

  /// A number that biases far away share, of either sign: what a float32 has few digits beside, and
  /// what it cannot hold. Those of another type than float64 become its largest at most.
  double draw_far(std::uint32_t dtype) {
    const double far =
        pick<double>({1e4, 1e6, 1e9, 1e30, 0x1.fffffep127, 1e39, 0x1.fffffffffffffp1023});
    const double most = dtype == HEED_DTYPE_F64    ? far
                        : dtype == HEED_DTYPE_F16  ? 65504
                        : dtype == HEED_DTYPE_BF16 ? 0x1.fep127
                                                   : 0x1.fffffep127;
    return (one_in(3) ? 1 : -1) * std::min(far, most);
  }

  /// Moves whole rows of a bias as far, alike or with what they hold beside it. Keys that are -inf
  /// stay masked.
  void move_rows(Tensor& bias, std::size_t axis) {
    const double far = draw_far(bias.dtype());
    const bool alike = one_in(2);
    const std::uint64_t salt = random_.bits();
    bias.each([&](const Axes& at) {
      const double x = bias.get(at);
      if (x == -kInfinity || Random(salt + static_cast<std::uint64_t>(at[axis])).bits() % 3 == 0)
        return;
      bias.set(at, alike || std::fabs(far) > 1e6 ? far : far + x);
    });
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
