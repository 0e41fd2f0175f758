// The oracle of products of rows with a matrix: heed_project, and the projections of blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/oracle/multihead.hpp"
#include "tests/oracle/multihead_sum.hpp"

namespace heed_test {

/// Element o of x W + b; x is exact.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> projected_row(const Wide* x, const Matrix<Wide>& matrix, const GivenMatrix& w,
                            Index o) {
  Terms<Real> terms;
  const auto in = static_cast<Index>(matrix.numbers.size()) / w.out;
  for (Index f = 0; f < in; ++f) terms.add({x[f], 0}, matrix.row(f)[o]);
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
};

/// The result and its bounds, in the order [batch, row, feature].
std::vector<Element> expect_project(const GivenProjection& given);

}  // namespace heed_test
