// The oracle of products of rows with a matrix: heed_project, and the projections of blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/oracle/bounded.hpp"
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

/// Element o of x W + b; b may have no data.
template <class Real, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> projected(const Bounded<Wide>* x, const BoundedRows<Wide>& w, const Source& bias,
                        Index o, const Multiplied& as = {}) {
  BoundedSum<Real> terms(as);
  const Index in = w.rows();
  for (Index f = 0; f < in; ++f) terms.add(x[f], w.row(f)[o]);
  if (bias.data != nullptr) terms.add(exact(static_cast<Wide>(bias.at(0, 0, 0, o))));
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
