// One query row: the keys that it attends, their weights, and what it adds to every output.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/oracle/element.hpp"
#include "tests/oracle/hard.hpp"
#include "tests/oracle/head.hpp"
#include "tests/oracle/softmax.hpp"

namespace heed_test {

template <class Real>
class Row {
 public:
  using Wide = typename Arithmetic<Real>::Wide;
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  Row(const Head<Real>& head, Index i)
      : head_(head), i_(i), number_(static_cast<std::size_t>(head.sequence().keys), kNone) {
    const Wide unit = head.softmax_unit();
    for (Index j = 0; j < head.sequence().keys; ++j) {
      if (!head.attends(i, j)) continue;
      number_[static_cast<std::size_t>(j)] = attended_.size();
      attended_.push_back(j);
      scores_.push_back(head.full_score(i, j, unit));
    }
    if (head.has_sink()) scores_.push_back(head.sink());
    for (const auto& s : scores_) {
      nan_ = nan_ || std::isnan(s.value);
      unspecified_ = unspecified_ || s.unspecified();
    }
    if (!nan_ && !unspecified_) weigh();
  }

  /// The keys that hard attention may choose, by their number among the attended.
  const std::vector<std::size_t>& choices() const { return choices_; }
  std::size_t first_choice() const { return choices_.empty() ? kNone : choices_[0]; }

  /// Feature x of the result; of hard attention, if it chooses `choice`.
  Element out(Index x, std::size_t choice) const {
    if (attended_.empty()) return {0, 0};
    if (unspecified_) return kUnspecified;
    if (nan_) return {kNaN, 0};
    const auto value_of = [&](std::size_t n) { return head_.value(attended_[n], x); };
    Bounded<Wide> result{0, 0};
    if (!hard()) {
      result = weighted_sum<Real>(softmax_, attended_.size(), value_of);
      if (head_.rounded_part() > 0) result.bound += rounded_weights(x);
    } else if (choice != kNone) {
      result = value_of(choice);  // whatever the values of the others
    }
    return stored(result.value, result.bound, dtype_of(head_.desc().out.dtype, HEED_DTYPE_F32),
                  real());
  }

  /// Evaluated in float64, whatever the arithmetic.
  Element lse() const {
    if (unspecified_) return kUnspecified;
    if (nan_) return {kNaN, 0};
    return stored_lse(softmax_.lse, softmax_.lse_error, dtype_of(head_.desc().lse.dtype, real()));
  }

  /// What is shown of key j, if the descriptor asks for weights.
  Element weight(Index j) const {
    const std::uint32_t dtype = dtype_of(head_.desc().weights.dtype, real());
    const auto show = [&](const Score<Wide>& s) { return stored(s.value, s.error, dtype, real()); };
    const std::uint32_t point = head_.desc().weights_point;
    if (j >= head_.sequence().keys) return {point == HEED_WEIGHTS_MASKED ? -kInfinity : 0, 0};
    if (point == HEED_WEIGHTS_SCORES) return show(head_.raw_score(i_, j, 1));
    if (point == HEED_WEIGHTS_CAPPED) return show(head_.capped_score(i_, j, 1));
    if (point == HEED_WEIGHTS_MASKED && number_of(j) == kNone) return {-kInfinity, 0};
    if (point == HEED_WEIGHTS_MASKED) return show(head_.full_score(i_, j, 1));
    const Bounded<Wide> p = probability_of(j);
    return stored(p.value, p.bound, dtype, real());
  }

  /// A row that is NaN, or may be, may show NaN at masked keys too.
  Bounded<Wide> probability_of(Index j) const {
    const std::size_t n = number_of(j);
    if (attended_.empty()) return {0, 0};
    if (unspecified_ || (nan_ && n == kNone)) return {0, kInfinite<Wide>};
    if (nan_) return {std::numeric_limits<Wide>::quiet_NaN(), 0};
    if (n == kNone) return {0, 0};
    return hard() ? chosen(n) : probability<Real>(softmax_, n);
  }

 private:
  bool hard() const { return head_.desc().hard != 0; }
  std::uint32_t real() const { return real_dtype(head_.desc()); }
  std::size_t number_of(Index j) const { return number_[static_cast<std::size_t>(j)]; }

  void weigh() {
    if (!hard()) {
      softmax_ = softmax_of<Real>(scores_, head_.pairs(), head_.parts());
      return;
    }
    choices_ = hardest(scores_, [&](std::size_t earlier, std::size_t later) {
      return head_.same_key(i_, attended_[earlier], attended_[later]);
    });
  }

  /// What feature x is off by if weights times scales are rounded to parts of the largest.
  Wide rounded_weights(Index x) const {
    Wide largest = 0;
    Wide integers = 0;
    for (std::size_t n = 0; n < attended_.size(); ++n) {
      const Wide scale = std::fabs(head_.value_scale(attended_[n]));
      if (!(scale > 0) || !std::isfinite(scale)) continue;
      largest = std::max(largest, softmax_.weight[n] * (1 + softmax_.error[n]) * scale);
      integers += std::fabs(head_.value(attended_[n], x).value) / scale;
    }
    return head_.rounded_part() * largest * integers / (1 - softmax_.denominator_error);
  }

  /// 1, or 0; one of them where there are several choices.
  Bounded<Wide> chosen(std::size_t n) const {
    const bool may_be = std::count(choices_.begin(), choices_.end(), n) > 0;
    const Wide half = static_cast<Wide>(0.5);
    if (may_be && choices_.size() > 1) return {half, half};
    return {static_cast<Wide>(may_be ? 1 : 0), 0};
  }

  const Head<Real>& head_;
  const Index i_;
  std::vector<std::size_t> number_;  ///< of every key among the attended
  std::vector<Index> attended_;
  std::vector<Score<Wide>> scores_;  ///< of the attended keys, and last of the sink
  Softmax<Wide> softmax_;            ///< the same
  std::vector<std::size_t> choices_;
  bool nan_ = false;
  bool unspecified_ = false;
};

}  // namespace heed_test
