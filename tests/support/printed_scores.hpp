// A run of attention over a graph as it was printed: 10 nodes, 36 edges, scores from -288 to 211.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/oracle/rounding.hpp"

namespace heed_test {

/// A node with the sources of its incoming edges, their scores and the weights printed for them.
struct PrintedNode {
  std::vector<std::int64_t> sources;
  std::vector<double> scores;
  std::vector<double> weights;
};

const std::vector<PrintedNode>& printed_nodes();

/// The printed weights have nine digits, and belong to scores in float64: rounding a score to Real
/// moves its weight by a factor exp(unit |score|), and the largest score's moves all. Below the
/// smallest normal number (2^-126 in float32) of the largest, heed's weight is 0 or subnormal.
template <class Real>
double printed_bound(const PrintedNode& node, std::size_t j) {
  double largest = 0;
  for (const double s : node.scores) largest = std::max(largest, std::fabs(s));
  const auto unit = static_cast<double>(kUnitOf<Real>);
  const double moved = std::expm1(unit * (std::fabs(node.scores[j]) + largest));
  return node.weights[j] * (moved + 1e-8) + static_cast<double>(kSmallestOf<Real>);
}

}  // namespace heed_test
