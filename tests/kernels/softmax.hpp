// What the tests of softmax and of exponentials share: a panel's scores and state, and how far off
// a probability may be.
#pragma once

#include "tests/kernels/support.hpp"

namespace heed_test {

/// A distance, in log2 units, beyond which nothing is left of a weight.
template <class Real>
constexpr int kFar = 24 - kSmallestExponentOf<Real>;

/// A panel's scores, and the state of its rows: nothing seen at first.
template <class Real>
struct Step {
  Step(const Case& whole, bool is_fresh)
      : c(whole),
        fresh(is_fresh),
        scores(c.keys * c.pitch),
        row_max(filled<Real>(c.pitch, [] { return heed::kNoRowMax<Real>; })),
        sum(filled<Real>(c.pitch, [] { return Real{0}; })),
        accumulators(round_up(c.features, heed::PanelGeometry::row_padding) * c.pitch) {}

  heed::RowState<Real> state() { return {row_max.data(), sum.data(), accumulators.data(), fresh}; }
  void softmax(const Table<Real>& kernels) { softmax(kernels, heed::all_keys(c.keys)); }
  void softmax(const Table<Real>& kernels, const heed::KeyRanges& ranges) {
    kernels.panels.softmax(c.vectors, scores.data(), ranges, 0, state(), c.features);
  }
  void exponentials(const Table<Real>& kernels) {
    kernels.panels.exponentials(c.vectors, scores.data(), c.keys, row_max.data(), sum.data());
  }

  bool intact() const {
    return scores.intact() && row_max.intact() && sum.intact() &&
           accumulators.intact_from(fresh ? 0 : c.features * c.pitch);
  }
  bool same_state(const Step& other) const {
    return same_bits(row_max, other.row_max) && same_bits(sum, other.sum) &&
           same_bits(accumulators, other.accumulators, c.features * c.pitch);
  }

  Case c;
  bool fresh;
  BasicBuffer<Real> scores, row_max, sum, accumulators;
};

/// 2^(x - row_max) as heed computes it is off by one rounding of the difference, whose effect grows
/// with it, and 1 ULP. Where nothing is left, any number does.
template <class Real>
Wide<Real> exp2_error(Wide<Real> difference) {
  constexpr Wide<Real> kRounding = kUnitOf<Real>;
  const Wide<Real> distance = std::min(std::fabs(difference), Wide<Real>{8 * kFar<Real>});
  return std::exp2(kRounding * distance) * (1 + 2 * kRounding) - 1;
}

/// A weight as it should be. Next to the smallest normal number and below, it may have been
/// flushed.
template <class Real>
struct Weight {
  /// `rounds`: their difference is rounded before it is an exponent.
  Weight(Real score, Wide<Real> row_max, bool rounds = true) {
    const Wide<Real> difference = std::min(score, kMax<Real>) - row_max;
    value = std::exp2(difference);
    bound = value * exp2_error<Real>(rounds ? difference : 0) +
            (difference < kSmallestExponentOf<Real> + 1 ? kSmallestOf<Real> : 0);
  }
  double ratio(Real got) const {
    return value == 0 ? wrong_unless(same_bits(got, Real{0})) : error_ratio(got, value, bound);
  }

  Wide<Real> value, bound;
};

}  // namespace heed_test
