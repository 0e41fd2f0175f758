// The oracle of products of rows with a matrix: heed_project, and the projections of blocks.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/oracle/bounded.hpp"
#include "tests/oracle/dtype.hpp"
#include "tests/oracle/multihead.hpp"

namespace heed_test {

/// How rows and a matrix of these types are multiplied where there are pairs.
inline Multiplied in_pairs(std::uint32_t x, std::uint32_t w, bool rounds = false) {
  return {rounds || (x == HEED_DTYPE_BF16 && w == HEED_DTYPE_BF16), rounds};
}

/// And where there are parts, too: of float16, and of float32 with HEED_PRECISION_HIGH.
inline Multiplied in_parts(std::uint32_t x, std::uint32_t w, bool high = false) {
  Multiplied as = in_pairs(x, w);
  const auto are = [&](std::uint32_t dtype) { return x == dtype && w == dtype; };
  const bool two = are(HEED_DTYPE_F16) || (high && are(HEED_DTYPE_F32));
  if (two) as.parts.count = 2;
  return as;
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
  BoundedSum<Real> terms(as);
  const auto in = static_cast<Index>(matrix.numbers.size()) / w.out;
  for (Index f = 0; f < in; ++f) terms.add(seen<Real>(x[f], as), seen<Real>(matrix.row(f)[o], as));
  if (w.bias.data != nullptr) terms.add(exact(static_cast<Wide>(w.bias.at(0, 0, 0, o))));
  return terms.result();
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
