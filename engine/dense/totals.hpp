// Sums over many keys, in two levels, so that their error hardly grows with the number of keys:
// after kFoldKeys keys a panel's sums are added to its totals and begin again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/dense/panel.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

inline constexpr std::int64_t kFoldKeys = 4096;

/// Rows of accumulators that a panel needs: its sums, padded, and for longer sequences its totals,
/// of which the totals of row_sum come last.
inline Size accumulator_rows(Size value_features, std::int64_t key_length) {
  const Size sums = round_up(value_features, PanelGeometry::row_padding);
  return key_length > kFoldKeys ? sums + value_features + 1 : sums;
}

template <class Real>
class Totals {
 public:
  Totals(const Panel<Real>& panel, std::size_t features)
      : state_(panel.state), summed_(*panel.summed), features_(features), pitch_(panel.pitch) {}

  /// How many rows of accumulators, totals included, hold something and must be rescaled.
  std::size_t rows_summed() const {
    return summed_ == Summed::kLatest ? sum_rows() + features_ + 1 : features_;
  }

  /// Before the keys from `key` on: every kFoldKeys keys the sums are added to the totals, and
  /// begin again.
  void fold(std::int64_t key) const {
    if (key % kFoldKeys != 0 || summed_ == Summed::kNothing) return;
    const bool first = summed_ != Summed::kLatest;
    summed_ = Summed::kLatest;
    each([first](Real& sum, Real& total) {
      total = first ? sum : total + sum;
      sum = 0;
    });
  }

  /// The sums of all keys, when they have been seen.
  void finish() const {
    if (summed_ == Summed::kNothing) std::fill_n(state_.accumulators, features_ * pitch_, Real{0});
    if (summed_ == Summed::kLatest) each([](Real& sum, Real& total) { sum += total; });
  }

 private:
  std::size_t sum_rows() const {
    return static_cast<std::size_t>(
        round_up(static_cast<std::int64_t>(features_), PanelGeometry::row_padding));
  }

  template <class Function>
  void each(Function&& function) const {
    const std::size_t count = features_ * pitch_;
    Real* const totals = state_.accumulators + sum_rows() * pitch_;
    for (std::size_t i = 0; i < count; ++i) function(state_.accumulators[i], totals[i]);
    for (std::size_t i = 0; i < pitch_; ++i) function(state_.row_sum[i], totals[count + i]);
  }

  const RowState<Real>& state_;
  Summed& summed_;
  const std::size_t features_;
  const std::size_t pitch_;
};

}  // namespace heed
