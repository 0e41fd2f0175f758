// The logarithm of the denominator of a softmax.
#pragma once

#include <cmath>
#include <limits>

#include "engine/kernels/table.hpp"
#include "engine/tensor/scale.hpp"

namespace heed {

/// In natural units, from the final row_max and row_sum; -inf if nothing was seen.
template <class Real>
double log_sum_exp(Real row_max, Real sum) {
  // A row_max equal to the largest number stands for scores of +inf.
  if (row_max == -kNoRowMax<Real> && sum > 0) return std::numeric_limits<double>::infinity();
  return kLn2 * static_cast<double>(row_max) + std::log(static_cast<double>(sum));
}

}  // namespace heed
