// How the heads of one row become one.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/oracle/multihead_sum.hpp"

namespace heed_test {

/// One feature of every head.
template <class Wide>
using Heads = std::vector<Bounded<Wide>>;

/// sum over h of weights[h] * head_h
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> weighted_heads(const Heads<Wide>& heads, const Wide* weights) {
  Terms<Real> terms;
  for (std::size_t h = 0; h < heads.size(); ++h) terms.add(heads[h], weights[h]);
  return terms.sum();
}

/// sum over h of head_h / H: the division, or the product with a rounded 1 / H of the sum or of
/// every head, is two roundings.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> mean_of_heads(const Heads<Wide>& heads) {
  Terms<Real> terms;
  for (const Bounded<Wide>& head : heads) terms.add(head, 1);
  const Bounded<Wide> sum = terms.sum(2);
  const auto count = static_cast<Wide>(heads.size());
  return {sum.value / count, sum.bound / count + (count + 1) * Arithmetic<Real>::kUnderflow};
}

/// The largest: nothing is rounded. It is no less than the largest x - e and no more than the
/// largest x + e; a NaN wins.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> largest_head(const Heads<Wide>& heads) {
  Bounded<Wide> largest = heads[0];
  Wide low = -kInfinite<Wide>;
  Wide high = -kInfinite<Wide>;
  bool unknown = false;
  for (const Bounded<Wide>& head : heads) {
    if (std::isnan(head.value)) return head;
    unknown = unknown || std::isinf(head.bound);
    if (head.value > largest.value) largest = head;
    low = std::max(low, head.value - head.bound);
    high = std::max(high, head.value + head.bound);
  }
  if (unknown) return {0, kInfinite<Wide>};
  if (std::isinf(largest.value)) return largest;
  return {largest.value, std::max(largest.value - low, high - largest.value)};
}

}  // namespace heed_test
