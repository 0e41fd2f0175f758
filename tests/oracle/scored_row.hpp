// A row of scores, whatever they are of, keys or edges: their weights, and what hard attention may
// choose.
//
// Hard attention has weight 1 at the largest score, of equal ones at the lowest key. heed may take
// any key for the largest whose score is within the errors of the largest:
//
//     t_j + E_j >= max_k (t_k - E_k)
//
// but not one that an earlier key equals, number by number: the same operations give it the same
// score. Scores of +inf are equal, and where all are -inf no key has any weight.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/oracle/dropout.hpp"
#include "tests/oracle/element.hpp"
#include "tests/oracle/scores.hpp"
#include "tests/oracle/softmax.hpp"

namespace heed_test {

/// A value whose weight is dropped: 0 of a number.
template <class Wide>
Bounded<Wide> dropped_value(const Bounded<Wide>& v) {
  return {v.value * 0, std::isinf(v.bound) ? v.bound : 0};
}

/// A sum of values by the weights that dropout leaves, divided by what it leaves on the whole: that
/// is rounded once more.
template <class Real>
Bounded<typename Arithmetic<Real>::Wide> over_kept(
    const Bounded<typename Arithmetic<Real>::Wide>& sum, double dropout) {
  using Wide = typename Arithmetic<Real>::Wide;
  if (dropout == 0 || !std::isfinite(sum.value) || std::isinf(sum.bound)) return sum;
  const auto kept = static_cast<Wide>(dropout_keeps(dropout));
  const Wide bound = sum.bound + Arithmetic<Real>::kUnit * (std::fabs(sum.value) + sum.bound);
  return finite_or_unbounded<Real>(sum.value / kept, bound / kept);
}

template <class Real>
class ScoredRow {
 public:
  using Wide = typename Arithmetic<Real>::Wide;

  /// What the row attends, in order.
  const std::vector<Index>& attended() const { return attended_; }

  /// Those that hard attention may choose, by their number among the attended.
  const std::vector<std::size_t>& choices() const { return choices_; }

  /// Whether the row is NaN or anything: so may be shown what it does not attend.
  bool spoilt() const { return nan_ || unspecified_; }

  /// The weight of the n-th that is attended.
  Bounded<Wide> weight(std::size_t n) const {
    if (unspecified_) return kUnbounded<Wide>;
    if (nan_) return kNotANumber<Wide>;
    return hard_ ? chosen(n) : probability<Real>(softmax_, n);
  }

 protected:
  explicit ScoredRow(bool hard) : hard_(hard) {}

  void attend(Index j, const Bounded<Wide>& score) {
    attended_.push_back(j);
    add(score);
  }
  /// Of a sink: after all that attend.
  void add(const Bounded<Wide>& score) {
    scores_.push_back(score);
    nan_ = nan_ || std::isnan(score.value);
    unspecified_ = unspecified_ || heed_test::is_unspecified(score);
  }

  /// After the last score. same(i, j): whether two that are attended are the same.
  template <class Same>
  void weigh(bool pairs, Parts parts, Same&& same) {
    if (spoilt()) return;
    if (hard_)
      choose(same);
    else
      softmax_ = softmax_of<Real>(scores_, pairs, parts);
  }

  /// What comes of the row: value(), unless its scores decide that.
  template <class Value>
  Bounded<Wide> unless_spoilt(Value&& value) const {
    if (attended_.empty()) return {0, 0};
    if (unspecified_) return kUnbounded<Wide>;
    return nan_ ? kNotANumber<Wide> : value();
  }

  /// Evaluated in float64, whatever the arithmetic.
  Element lse_as(std::uint32_t dtype) const {
    if (unspecified_) return kUnspecified;
    if (nan_) return {kNaN, 0};
    return stored_lse(softmax_.lse, softmax_.lse_error, dtype);
  }

  const std::vector<Bounded<Wide>>& scores() const { return scores_; }
  const Softmax<Wide>& softmax() const { return softmax_; }
  Softmax<Wide>& softmax() { return softmax_; }
  bool is_nan() const { return nan_; }
  bool is_unspecified() const { return unspecified_; }

 private:
  template <class Same>
  void choose(Same&& same) {
    Wide lowest = -kInfinite<Wide>;
    for (const auto& s : scores_) lowest = std::max(lowest, s.value - s.bound);
    for (std::size_t j = 0; j < scores_.size(); ++j) {
      const Bounded<Wide>& s = scores_[j];
      if (s.value == -kInfinite<Wide> || s.value + s.bound < lowest) continue;
      const bool repeated = std::any_of(choices_.begin(), choices_.end(), [&](std::size_t earlier) {
        return same(attended_[earlier], attended_[j]);
      });
      const bool infinite = lowest == kInfinite<Wide> && !choices_.empty();
      if (!repeated && !infinite) choices_.push_back(j);
    }
  }

  /// 1, or 0; one of them where there are several choices.
  Bounded<Wide> chosen(std::size_t n) const {
    const bool may_be = std::count(choices_.begin(), choices_.end(), n) > 0;
    const Wide half = static_cast<Wide>(0.5);
    if (may_be && choices_.size() > 1) return {half, half};
    return {static_cast<Wide>(may_be ? 1 : 0), 0};
  }

  bool hard_;
  std::vector<Index> attended_;
  std::vector<Bounded<Wide>> scores_;  ///< of the attended, and last of the sink
  Softmax<Wide> softmax_;              ///< the same
  std::vector<std::size_t> choices_;
  bool nan_ = false;
  bool unspecified_ = false;
};

}  // namespace heed_test
