// The oracle of products of rows with a matrix: heed_project, and the projections of blocks.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/oracle/dtype.hpp"
#include "tests/oracle/multihead.hpp"
#include "tests/oracle/multihead_sum.hpp"

namespace heed_test {

/// How a product multiplies.
struct Multiplied {
  bool pairs = false;   ///< of bfloat16
  bool rounds = false;  ///< to it, first
};

/// Whether rows and a matrix that lie so are multiplied in pairs, where there are any.
inline Multiplied in_pairs(const Source& x, const Source& w, bool rounds) {
  return {rounds || (x.dtype == HEED_DTYPE_BF16 && w.dtype == HEED_DTYPE_BF16), rounds};
}

/// What a product sees of x. Past the largest number of bfloat16 one of a matrix counts as that,
/// off by less than 2^-8 of itself, as where numbers round; rows that have one are not rounded.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> seen(Wide x, const Multiplied& as) {
  if (!as.rounds || !std::isfinite(x)) return {x, 0};
  const auto unit = static_cast<Wide>(format_of(HEED_DTYPE_BF16).unit);
  return {x, unit * std::fabs(x) + Arithmetic<Real>::kSmallest};
}

/// Element o of x W + b; x is exact.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> projected_row(const Wide* x, const Matrix<Wide>& matrix, const GivenMatrix& w,
                            Index o, const Multiplied& as) {
  Terms<Real> terms(as.pairs);
  const auto in = static_cast<Index>(matrix.numbers.size()) / w.out;
  for (Index f = 0; f < in; ++f) terms.add(seen<Real>(x[f], as), seen<Real>(matrix.row(f)[o], as));
  if (w.bias.data != nullptr) terms.add(static_cast<Wide>(w.bias.at(0, 0, 0, o)));
  return terms.sum();
}

/// Rows [batch, 0, row, feature] to multiply, and matrices of `in` features each, one below the
/// other.
struct GivenProjection {
  Source x;
  Index batch, rows;
  GivenMatrix w;
  Index matrices, in;
  std::uint32_t real;     ///< the arithmetic's type
  std::uint32_t dtype_y;  ///< of the result
  Multiplied as = {};
};

/// The result and its bounds, in the order [batch, row, feature].
std::vector<Element> expect_project(const GivenProjection& given);

}  // namespace heed_test
