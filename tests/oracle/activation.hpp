// act() of scores that are no products, and its derivative, of numbers that are off by a known
// amount.
//
// tanh. heed's is within 6 ULP, 12 u, for the z that it is given, and tanh' = 1 / cosh^2 falls with
// |z|. The derivative is (1 - t)(1 + t) of that t, three roundings.
//
// Leaky ReLU. A slope is rounded to Real, and a product with it once more; what may be of either
// sign may have either slope, and moves by the larger one. The derivative at 0 is the slope, as
// PyTorch has it; the identity's is 1.
#pragma once

#include <algorithm>
#include <cmath>

#include "api/heed.h"
#include "tests/oracle/bounded.hpp"

namespace heed_test {

template <class Real>
class OracleActivation {
 public:
  using Wide = typename Arithmetic<Real>::Wide;
  using Number = Bounded<Wide>;

  OracleActivation(std::uint32_t activation, double slope)
      : tanh_(activation == HEED_ACTIVATION_TANH),
        slope_(activation == HEED_ACTIVATION_LEAKY_RELU ? static_cast<Wide>(slope) : 1),
        slope_error_(slope_ == 1 ? 0 : A::kUnit * std::fabs(slope_) + A::kUnderflow) {}

  Number value(const Number& z) const {
    if (is_unspecified(z)) return kUnbounded<Wide>;
    if (std::isnan(z.value)) return kNotANumber<Wide>;
    if (tanh_) {
      const Wide t = std::tanh(z.value);
      const Wide cosh = std::cosh(std::max(std::fabs(z.value) - z.bound, Wide{0}));
      const Wide moved = std::min(z.bound / cosh / cosh, Wide{2});
      if (std::isinf(z.value)) return {t, 0};
      return {t, moved + gamma_of<Real>(12) * (std::fabs(t) + moved) + 16 * A::kUnderflow};
    }
    if (z.value - z.bound > 0) return z;
    const Number below = product<Real>(z, {slope_, slope_error_});
    if (z.value + z.bound <= 0) return slope_error_ == 0 && slope_ == 1 ? z : below;
    const Wide larger = std::max(Wide{1}, std::fabs(slope_));
    const Number either = {z.value > 0 ? z.value : below.value, below.bound + larger * z.bound};
    return is_unspecified(below) ? below : either;
  }

  Number slope(const Number& z) const {
    if (is_unspecified(z)) return kUnbounded<Wide>;
    if (tanh_) {
      const Number t = value(z);
      if (is_nan(t)) return t;
      const Wide square = t.value * t.value;
      const Wide error = 2 * std::fabs(t.value) * t.bound + t.bound * t.bound;
      return {1 - square, error + gamma_of<Real>(3) * (1 + square + error)};
    }
    if (z.value - z.bound > 0) return {1, 0};
    if (!(z.value + z.bound > 0)) return {slope_, slope_error_};
    return {(1 + slope_) / 2, std::fabs(1 - slope_) / 2 + slope_error_};
  }

 private:
  using A = Arithmetic<Real>;

  bool tanh_;
  Wide slope_, slope_error_;
};

}  // namespace heed_test
