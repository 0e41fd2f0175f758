// Products of rows with matrices: queries, keys and values from data, and what edges add to them.
//
// A number x W + b is a sum of products, of x that are off after the first step: bounded.hpp.
// 16-bit numbers are widened exactly.
//
// Edges. heed is free to compute q (k + f W) and p (v + f W), or q k + (q W^T) f and
// sum p v + (sum p f) W. The bounds are of the second way, in which sums have more terms; those of
// the first are within them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/oracle/bounded.hpp"
#include "tests/oracle/graph_inputs.hpp"

namespace heed_test {

/// What edges add to keys or values: their data, and the matrix that it is multiplied with. Without
/// columns where they add nothing.
template <class Wide>
struct EdgeTerms {
  Index width = 0;
  Index columns = 0;
  std::vector<Wide> data;    ///< [edge][width]
  std::vector<Wide> matrix;  ///< [width][columns]
  Wide largest = 0;          ///< of the matrix

  bool given() const { return columns > 0; }
  const Wide* features(Index e) const { return data.data() + e * width; }
  Wide weight(Index i, Index column) const {
    return matrix[static_cast<std::size_t>(i * columns + column)];
  }
};

template <class Wide>
EdgeTerms<Wide> edge_terms(const GraphGiven& given, GraphGradientOf matrix, Index columns) {
  EdgeTerms<Wide> all;
  if (!given.has(matrix)) return all;
  all.width = given.desc.edge_width;
  all.columns = columns;
  const Source& from = given.inputs[kGraphEdgeData];
  for (Index e = 0; e < given.edges.size(); ++e)
    for (Index i = 0; i < all.width; ++i)
      all.data.push_back(static_cast<Wide>(from.at(0, 0, e, i)));
  const Source& w = given.inputs[matrix];
  for (Index i = 0; i < all.width; ++i)
    for (Index o = 0; o < columns; ++o) {
      all.matrix.push_back(static_cast<Wide>(w.at(0, 0, i, o)));
      all.largest = std::max(all.largest, std::fabs(all.matrix.back()));
    }
  return all;
}

/// A sum of products f W of numbers that are off by their bounds. What is not finite may turn out
/// as an infinity or as NaN, one way or the other, but where a NaN makes it one for certain.
template <class Real, class NumberOf, class Wide = typename Arithmetic<Real>::Wide>
Bounded<Wide> edge_sum(const EdgeTerms<Wide>& terms, Index column, NumberOf&& number_of) {
  BoundedSum<Real> sum;
  bool nan = false;
  for (Index i = 0; i < terms.width; ++i) {
    const Bounded<Wide> f = number_of(i);
    const Wide w = terms.weight(i, column);
    nan = nan || std::isnan(f.value) || std::isnan(w);
    sum.add(f, exact(w));
  }
  const Bounded<Wide> result = sum.result(2);
  if (nan) return kNotANumber<Wide>;
  return std::isfinite(result.value) ? result : kUnbounded<Wide>;
}

}  // namespace heed_test
