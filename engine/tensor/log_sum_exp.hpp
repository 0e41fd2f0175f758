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

/// Writes a log-sum-exp as float32 or float64. One that is finite stays it: -inf would say that
/// nothing was seen.
inline void write_log_sum_exp(const KernelTable<double>& kernels, ElementType type, double lse,
                              std::byte* to) {
  if (type == ElementType::kF32 && std::isfinite(lse))
    lse = static_cast<double>(finite_score<float>(lse));
  kernels.numbers.write(type, &lse, 1, to, 1);
}

/// Whether a finite log-sum-exp that was rounded to so many digits has lost some.
inline bool has_lost_digits(double lse, bool float64) {
  return std::isfinite(lse) && std::fabs(lse) > (float64 ? kFarLogSum<double> : kFarLogSum<float>);
}

}  // namespace heed
