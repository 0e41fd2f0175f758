// A block of plain attention in a few loops over float64, as a textbook has it.
#pragma once

#include <functional>
#include <vector>

#include "tests/problem/block.hpp"

namespace heed_test {

/// Element o of row i of item b of an input times a matrix, plus its bias.
double projected(const Tensor& input, const WeightMatrix& w, Index b, Index i, Index o);

/// Element o of what the combiner makes of a row of every head, whose elements are head(h, x).
double combined(const Block& block, Index o, const std::function<double(Index h, Index x)>& head);

struct Plain {
  std::vector<double> scores;  ///< [batch, head, row, key]
  std::vector<double> out;     ///< [batch, row, feature]
  std::vector<bool> tied;      ///< of every row of out: two keys share a head's largest score
  double largest = 0;          ///< of the sums of |terms| of a score
};

/// Of the attention count sizes, the scale and whether it is hard.
Plain plainly(const Block& block);

}  // namespace heed_test
