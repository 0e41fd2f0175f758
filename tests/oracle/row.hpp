// One query row: the keys that it attends, their weights, and what it adds to every output.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "tests/oracle/head.hpp"
#include "tests/oracle/scored_row.hpp"

namespace heed_test {

template <class Real>
class Row : public ScoredRow<Real> {
  using Base = ScoredRow<Real>;

 public:
  using Wide = typename Arithmetic<Real>::Wide;
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  Row(const Head<Real>& head, Index i)
      : Base(head.desc().hard != 0),
        head_(head),
        i_(i),
        number_(static_cast<std::size_t>(head.sequence().keys), kNone) {
    const Wide unit = head.softmax_unit();
    for (Index j = 0; j < head.sequence().keys; ++j) {
      if (!head.attends(i, j)) continue;
      number_[static_cast<std::size_t>(j)] = this->attended().size();
      this->attend(j, head.full_score(i, j, unit));
    }
    if (head.has_sink()) this->add(head.sink());
    this->weigh(head.pairs(), head.parts(),
                [&](Index earlier, Index later) { return head.same_key(i, earlier, later); });
  }

  std::size_t first_choice() const { return this->choices().empty() ? kNone : this->choices()[0]; }

  /// Feature x of the result; of hard attention, if it chooses `choice`.
  Element out(Index x, std::size_t choice) const {
    const Bounded<Wide> result = this->unless_spoilt([&] { return value(x, choice); });
    return stored(result.value, result.bound, dtype_of(head_.desc().out.dtype, HEED_DTYPE_F32),
                  real());
  }

  Element lse() const { return this->lse_as(dtype_of(head_.desc().lse.dtype, real())); }

  /// What is shown of key j, if the descriptor asks for weights.
  Element shown(Index j) const {
    const std::uint32_t dtype = dtype_of(head_.desc().weights.dtype, real());
    const auto show = [&](const Bounded<Wide>& s) {
      return stored(s.value, s.bound, dtype, real());
    };
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
    if (this->attended().empty() || (n == kNone && !this->spoilt())) return {0, 0};
    return n == kNone ? kUnbounded<Wide> : this->weight(n);
  }

 private:
  std::uint32_t real() const { return real_dtype(head_.desc()); }
  std::size_t number_of(Index j) const { return number_[static_cast<std::size_t>(j)]; }

  Bounded<Wide> value(Index x, std::size_t choice) const {
    const std::vector<Index>& keys = this->attended();
    const auto value_of = [&](std::size_t n) { return head_.value(keys[n], x); };
    if (head_.desc().hard != 0)
      return choice == kNone ? Bounded<Wide>{0, 0} : value_of(choice);  // whatever the others'
    Bounded<Wide> sum = weighted_sum<Real>(this->softmax(), keys.size(), [&](std::size_t n) {
      return head_.dropped(i_, keys[n]) ? dropped_value(value_of(n)) : value_of(n);
    });
    if (head_.rounded_part() > 0) sum.bound += rounded_weights(x);
    return over_kept<Real>(sum, head_.desc().dropout);
  }

  /// What feature x is off by if weights times scales are rounded to parts of the largest.
  Wide rounded_weights(Index x) const {
    Wide largest = 0;
    Wide integers = 0;
    const Softmax<Wide>& softmax = this->softmax();
    for (std::size_t n = 0; n < this->attended().size(); ++n) {
      const Index j = this->attended()[n];
      const Wide scale = std::fabs(head_.value_scale(j));
      if (!(scale > 0) || !std::isfinite(scale)) continue;
      largest = std::max(largest, softmax.weight[n] * (1 + softmax.error[n]) * scale);
      integers += std::fabs(head_.value(j, x).value) / scale;
    }
    return head_.rounded_part() * largest * integers / (1 - softmax.denominator_error);
  }

  const Head<Real>& head_;
  const Index i_;
  std::vector<std::size_t> number_;  ///< of every key among the attended
};

template <class Real>
class ColumnSums {
  using Wide = typename Arithmetic<Real>::Wide;

 public:
  explicit ColumnSums(const heed_attention_desc& desc)
      : desc_(desc), sums_(static_cast<std::size_t>(desc.key_length), {0, 0}) {}

  /// All rows of the head, one after the other.
  void add(const Row<Real>& row, Index keys) {
    rows_ += 1;
    for (Index j = 0; j < keys; ++j) {
      const Bounded<Wide> p = row.probability_of(j);
      sums_[static_cast<std::size_t>(j)].value += p.value;
      sums_[static_cast<std::size_t>(j)].bound += p.bound;
    }
  }

  Element element(Index j) const {
    const Bounded<Wide>& sum = sums_[static_cast<std::size_t>(j)];
    if (std::isnan(sum.value) && std::isfinite(sum.bound)) return {kNaN, 0};
    const std::uint32_t real = real_dtype(desc_);
    return stored(sum.value, sum.bound + gamma_of<Real>(rows_) * (sum.value + sum.bound),
                  dtype_of(desc_.column_sums.dtype, real), real);
  }

 private:
  const heed_attention_desc& desc_;
  std::vector<Bounded<Wide>> sums_;
  Wide rows_ = 0;
};

}  // namespace heed_test
