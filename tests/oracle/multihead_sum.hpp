// Sums of products of numbers that heed has computed, x, with numbers that it was given, w:
// projections, what W_out makes of the heads, and weighted heads.
//
// Heed's x is off by e. It sums n products, and perhaps a bias, in an order of its own, so that
// every term sees n roundings at most, n + 1 with the bias (see oracle/rounding.hpp):
//
//     |y' - y| <= sum e |w|  +  gamma(n) (sum (|x| + e) |w| + |b|)  +  n kUnderflow
//
// Infinities and NaN go by the rules of IEEE 754, but for an infinity times what may be 0 or of
// either sign; of that, and of terms that overflow together, nobody knows.
#pragma once

#include <cmath>

#include "tests/oracle/arithmetic.hpp"

namespace heed_test {

template <class Real>
class Terms {
 public:
  using Wide = typename Arithmetic<Real>::Wide;

  void add(const Bounded<Wide>& x, Wide w) {
    roundings_ += 1;
    const bool vague = std::isinf(w) && x.bound > 0 && std::fabs(x.value) <= x.bound;
    unknown_ = unknown_ || vague || std::isinf(x.bound) || std::isnan(x.bound);
    nan_ = nan_ || std::isnan(x.value) || std::isnan(w);
    value_ += x.value * w;
    if (!std::isfinite(x.value * w)) return;
    magnitude_ += (std::fabs(x.value) + x.bound) * std::fabs(w);
    moved_ += x.bound * std::fabs(w);
  }

  /// A term that is given.
  void add(Wide b) { add({1, 0}, b); }

  /// After `more` roundings of the sum.
  Bounded<Wide> sum(Wide more = 0) const {
    using A = Arithmetic<Real>;
    if (nan_) return {std::numeric_limits<Wide>::quiet_NaN(), 0};
    const Wide error = moved_ + gamma_of<Real>(roundings_ + more) * magnitude_ +
                       (roundings_ + more) * A::kUnderflow;
    if (unknown_ || !(magnitude_ + error < A::kMax)) return {0, kInfinite<Wide>};
    return {value_, std::isfinite(value_) ? error : 0};
  }

 private:
  Wide value_ = 0;
  Wide magnitude_ = 0;
  Wide moved_ = 0;
  Wide roundings_ = 0;
  bool nan_ = false;
  bool unknown_ = false;
};

}  // namespace heed_test
