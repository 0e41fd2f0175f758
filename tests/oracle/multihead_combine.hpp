// How the heads of one row become one, and what of its gradient each gets.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/oracle/bounded.hpp"
#include "tests/oracle/element.hpp"
#include "tests/oracle/inputs.hpp"

namespace heed_test {

/// How many rows a tensor has, and an item of its batch.
struct Length {
  Length(const heed_attention_desc& d, Index packed, Index length)
      : all(packed > 0 ? packed : d.batch * length), each(packed > 0 ? packed : length) {}
  Index all, each;
};

/// Rows of all heads side by side.
template <class Wide>
struct HeadRows : BoundedRows<Wide> {
  std::vector<bool> owned;  ///< by sequences

  bool has(Index t) const { return owned[static_cast<std::size_t>(t)]; }
};

/// Of elements by item, head and row.
template <class Wide>
HeadRows<Wide> side_by_side(const std::vector<Element>& elements, Index heads, const Length& length,
                            Index width) {
  HeadRows<Wide> rows{{heads * width},
                      std::vector<bool>(static_cast<std::size_t>(length.all), true)};
  for (Index t = 0; t < length.all; ++t)
    for (Index h = 0; h < heads; ++h)
      for (Index x = 0; x < width; ++x) {
        const Index line = (t / length.each * heads + h) * length.each + t % length.each;
        const Element& e = elements[static_cast<std::size_t>(line * width + x)];
        rows.numbers.push_back({static_cast<Wide>(e.value), static_cast<Wide>(e.bound)});
        if (!e.written) rows.owned[static_cast<std::size_t>(t)] = false;
      }
  return rows;
}

/// One feature of every head.
template <class Wide>
using Heads = std::vector<Bounded<Wide>>;

template <class Wide>
Heads<Wide> feature_of(const Bounded<Wide>* row, Index heads, Index width, Index x) {
  Heads<Wide> all;
  for (Index h = 0; h < heads; ++h) all.push_back(row[h * width + x]);
  return all;
}

/// sum over h of weights[h] * head_h
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> weighted_heads(const Heads<Wide>& heads, const Bounded<Wide>* weights) {
  BoundedSum<Real> terms;
  for (std::size_t h = 0; h < heads.size(); ++h) terms.add(heads[h], weights[h]);
  return terms.result();
}

/// sum over h of head_h / H: the division, or the product with a rounded 1 / H of the sum or of
/// every head, is two roundings.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> mean_of_heads(const Heads<Wide>& heads) {
  BoundedSum<Real> terms;
  for (const Bounded<Wide>& head : heads) terms.add(head);
  const Bounded<Wide> sum = terms.result(2);
  const auto count = static_cast<Wide>(heads.size());
  const Wide lost = sum.bound > 0 ? (count + 1) * Arithmetic<Real>::kUnderflow : 0;
  return {sum.value / count, sum.bound / count + lost};
}

/// The largest: nothing is rounded. It is no less than the largest x - e and no more than the
/// largest x + e, nor further off than the most that any is; a NaN wins.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> largest_head(const Heads<Wide>& heads) {
  Bounded<Wide> largest = heads[0];
  Wide low = -kInfinite<Wide>;
  Wide high = -kInfinite<Wide>;
  Wide most = 0;
  bool unknown = false;
  for (const Bounded<Wide>& head : heads) {
    if (std::isnan(head.value)) return head;
    unknown = unknown || std::isinf(head.bound);
    if (head.value > largest.value) largest = head;
    most = std::max(most, head.bound);
    low = std::max(low, head.value - head.bound);
    high = std::max(high, head.value + head.bound);
  }
  if (unknown) return {0, kInfinite<Wide>};
  if (std::isinf(largest.value)) return largest;
  return {largest.value, std::min(most, std::max(largest.value - low, high - largest.value))};
}

/// Element x of what a combiner without a matrix makes of a row.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> combined(std::uint32_t combine, const Bounded<Wide>* row, Index heads, Index width,
                       Index x, const Bounded<Wide>* weights) {
  if (combine == HEED_COMBINE_CONCAT || combine == HEED_COMBINE_HEADS) return row[x];
  const Heads<Wide> all = feature_of(row, heads, width, x);
  if (combine == HEED_COMBINE_MEAN) return mean_of_heads<Real>(all);
  return combine == HEED_COMBINE_MAX ? largest_head<Real>(all) : weighted_heads<Real>(all, weights);
}

/// Whether a, moved by `up`, is the largest beside b, moved by `down`.
template <class Wide>
bool beats(const Bounded<Wide>& a, Wide up, const Bounded<Wide>& b, Wide down, bool first) {
  if (std::isnan(a.value) || std::isnan(b.value))
    return std::isnan(a.value) && (first || !std::isnan(b.value));
  const Wide x = std::isinf(a.value) ? a.value : a.value + up;
  const Wide y = std::isinf(b.value) ? b.value : b.value + down;
  return first ? x >= y : x > y;
}

/// What of the largest's gradient a head gets: all of it where the head certainly is the largest,
/// nothing where it certainly is not, else anything between. A NaN is larger than all; of equal
/// ones the first is.
template <class Wide>
Bounded<Wide> gradient_of_largest(const Heads<Wide>& heads, std::size_t head,
                                  const Bounded<Wide>& gradient) {
  bool may = true;
  bool must = true;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    if (is_unspecified(heads[h])) return kUnbounded<Wide>;
    if (h == head) continue;
    const bool first = head < h;
    may = may && beats(heads[head], heads[head].bound, heads[h], -heads[h].bound, first);
    must = must && beats(heads[head], -heads[head].bound, heads[h], heads[h].bound, first);
  }
  if (must) return gradient;
  if (!may) return {0, 0};
  if (!std::isfinite(gradient.value)) return kUnbounded<Wide>;
  return {gradient.value / 2, std::fabs(gradient.value) / 2 + gradient.bound};
}

}  // namespace heed_test
