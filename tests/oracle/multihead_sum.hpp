// Sums of products of numbers that heed has computed, x, with numbers that it was given, w:
// projections, what W_out makes of the heads, and weighted heads.
//
// Heed's x is off by e. It sums n products, and perhaps a bias, in an order of its own, so that
// every term sees n roundings at most, n + 1 with the bias (see oracle/rounding.hpp):
//
//     |y' - y| <= sum e |w|  +  gamma(n) (sum (|x| + e) |w| + |b|)  +  n kUnderflow
//
// Pairs of bfloat16 sum in an order of their own, and an empty sum and a bias come to it: two more
// roundings at most. (AMX sums even and odd terms apart, and then both. BFDOT rounds to odd, which
// loses twice as much, but half as often: once the two products of a pair, once their sum with the
// others.) Subnormal x, w and sums count as 0: |x w| < kSmallest (|x| + |w|), and kSmallest for
// every sum. Where x or w are rounded to bfloat16 first they are off by that. Parts of numbers are
// pairs, too; what they leave out, and how many terms they make of one, rounding.hpp says.
//
// Infinities and NaN go by the rules of IEEE 754, but for an infinity times what may be 0 or of
// either sign; of that, and of terms that overflow together, nobody knows.
#pragma once

#include <cmath>

#include "tests/oracle/arithmetic.hpp"

namespace heed_test {

/// How a product multiplies.
struct Multiplied {
  bool pairs = false;   ///< of bfloat16
  bool rounds = false;  ///< to it, first
  Parts parts = {};     ///< or numbers as so many parts
};

template <class Real>
class Terms {
 public:
  using Wide = typename Arithmetic<Real>::Wide;

  explicit Terms(const Multiplied& as = {})
      : parts_(as.parts), pairs_(as.pairs || as.parts.count > 0) {}

  void add(const Bounded<Wide>& x, const Bounded<Wide>& w) {
    roundings_ += terms_of<Wide>(parts_);
    unknown_ = unknown_ || is_vague(x, w.value) || is_vague(w, x.value);
    nan_ = nan_ || std::isnan(x.value) || std::isnan(w.value);
    value_ += x.value * w.value;
    if (!std::isfinite(x.value * w.value)) return;
    const Wide x_size = std::fabs(x.value) + x.bound;
    const Wide w_size = std::fabs(w.value) + w.bound;
    magnitude_ += x_size * w_size;
    moved_ += x.bound * w_size + std::fabs(x.value) * w.bound;
    moved_ += left_out<Wide>(parts_) * x_size * w_size;
    if (pairs_)
      moved_ += flushes_of<Wide>(parts_) * Arithmetic<Real>::kSmallest * (x_size + w_size + 1);
  }
  void add(const Bounded<Wide>& x, Wide w) { add(x, Bounded<Wide>{w, 0}); }

  /// A term that is given.
  void add(Wide b) { add({1, 0}, Bounded<Wide>{b, 0}); }

  /// After `more` roundings of the sum.
  Bounded<Wide> sum(Wide more = 0) const {
    using A = Arithmetic<Real>;
    if (pairs_) more += 2;
    if (nan_) return {std::numeric_limits<Wide>::quiet_NaN(), 0};
    const bool zeros = magnitude_ == 0 && moved_ == 0;  // which nothing rounds
    const Wide error = zeros ? 0
                             : moved_ + gamma_of<Real>(roundings_ + more) * magnitude_ +
                                   (roundings_ + more) * A::kUnderflow;
    if (unknown_ || !(magnitude_ + error < A::kMax)) return {0, kInfinite<Wide>};
    return {value_, std::isfinite(value_) ? error : 0};
  }

 private:
  /// An infinity meets what may be 0 or of either sign, or x is nobody knows what.
  static bool is_vague(const Bounded<Wide>& x, Wide factor) {
    const bool turns = std::isinf(factor) && x.bound > 0 && std::fabs(x.value) <= x.bound;
    return turns || std::isinf(x.bound) || std::isnan(x.bound);
  }

  const Parts parts_;
  const bool pairs_;
  Wide value_ = 0;
  Wide magnitude_ = 0;
  Wide moved_ = 0;
  Wide roundings_ = 0;
  bool nan_ = false;
  bool unknown_ = false;
};

}  // namespace heed_test
