// Scores a <q, k> / (|q| |k|): rows over their lengths, and the derivatives of their products. heed
// sums squares in float64, so that a length is off by gamma(D + 4) of that and by the length of the
// row's own errors; one shorter than 1e-12 counts as that, a constant. With u = q / |q|:
//
//     d <u, v> / d q_x = (v_x - u_x <u, v>) / |q|
//
// A row with an infinity has zeros beside NaN; one with a NaN is NaN.
#pragma once

#include <cmath>
#include <vector>

#include "tests/oracle/bounded.hpp"
#include "tests/oracle/inputs.hpp"

namespace heed_test {

template <class Wide>
struct UnitRow {
  std::vector<Bounded<Wide>> numbers;
  Bounded<Wide> inverse = kNotANumber<Wide>;  ///< of the length
  bool is_constant = false;                   ///< the length
};

template <class Real, class Wide = typename Arithmetic<Real>::Wide>
UnitRow<Wide> unit_row(const Bounded<Wide>* numbers, Index features) {
  constexpr auto kLeast = static_cast<Wide>(1e-12);
  Wide squares = 0;
  Wide errors = 0;
  for (Index x = 0; x < features; ++x) {
    const Bounded<Wide>& n = numbers[x];
    squares += n.value * n.value;
    errors += n.bound * n.bound;
  }
  UnitRow<Wide> row;
  const Wide length = std::sqrt(squares);
  const Wide moved =
      std::sqrt(errors) +
      static_cast<Wide>(gamma_of<double>(static_cast<long double>(features) + 4)) * length;
  const bool vague = std::isinf(errors) || (length + moved >= kLeast && length - moved <= kLeast);
  row.is_constant = length + moved < kLeast;
  if (row.is_constant)
    row.inverse = {1 / kLeast, 0};
  else if (std::isfinite(length))
    row.inverse = {1 / length, 1 / (length - moved) - 1 / length};
  for (Index x = 0; x < features; ++x) {
    const Bounded<Wide>& n = numbers[x];
    if (std::isfinite(length))
      row.numbers.push_back(vague ? kUnbounded<Wide> : product<Real>(n, row.inverse));
    else if (vague)
      row.numbers.push_back(kUnbounded<Wide>);
    else
      row.numbers.push_back(std::isinf(length) && std::isfinite(n.value) ? exact(Wide{0})
                                                                         : kNotANumber<Wide>);
  }
  if (vague) row.inverse = kUnbounded<Wide>;
  return row;
}

/// <u, v> of two such rows.
template <class Real>
class Cosine {
 public:
  using Wide = typename Arithmetic<Real>::Wide;
  using Row = UnitRow<Wide>;

  Cosine(const Row& query, const Row& key) : query_(query), key_(key) {
    BoundedSum<Real> sum;
    for (std::size_t x = 0; x < query.numbers.size(); ++x)
      sum.add(query.numbers[x], key.numbers[x]);
    inner_ = sum.result(1);
  }

  const Bounded<Wide>& value() const { return inner_; }

  /// sums(x) += factor times the derivative by feature x of the query, and of the key. The sizes of
  /// terms are those of what is subtracted: heed sums both over pairs first.
  template <class Sums>
  void add_query(const Bounded<Wide>& factor, Sums&& sums) const {
    add(query_, key_, factor, sums);
  }
  template <class Sums>
  void add_key(const Bounded<Wide>& factor, Sums&& sums) const {
    add(key_, query_, factor, sums);
  }

 private:
  template <class Sums>
  void add(const Row& own, const Row& other, const Bounded<Wide>& factor, Sums&& sums) const {
    const Bounded<Wide> scaled = product<Real>(factor, own.inverse);
    for (std::size_t x = 0; x < own.numbers.size(); ++x) {
      const Bounded<Wide>& u = own.numbers[x];
      const Bounded<Wide>& v = other.numbers[x];
      const Bounded<Wide> along = product<Real>({-u.value, u.bound}, inner_);
      const Bounded<Wide> term = product<Real>(scaled, own.is_constant ? v : sum<Real>(v, along));
      // Sizes of the products of u and v add up to 1 at most.
      const Wide sizes = std::fabs(v.value) + v.bound + std::fabs(u.value) + u.bound;
      // Sums over pairs that are infinite meet each other in every feature.
      if (std::isinf(scaled.value)) {
        sums(static_cast<Index>(x)).add(kUnbounded<Wide>);
        continue;
      }
      sums(static_cast<Index>(x)).add(term, (std::fabs(scaled.value) + scaled.bound) * sizes);
    }
  }

  const Row& query_;
  const Row& key_;
  Bounded<Wide> inner_;
};

}  // namespace heed_test
