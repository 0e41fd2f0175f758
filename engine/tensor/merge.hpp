// Partial results: softmax of one query over some of its keys, and their merge by log-sum-exp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
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

/// The end of softmax over some keys, of several query rows or heads.
template <class Real>
struct PartialResults {
  Real* row_max;  ///< [rows]
  Real* row_sum;  ///< [rows] relative to that
  Real* sums;     ///< [rows][value features]
};

/// Merges partial results of one query in float64, as the API promises: writes the sum of weight
/// times result over the sum of weights, where a weight is e^lse. lse_of(k) is the lse of result k.
/// Features come in strips: read(k, begin, count, to) reads some, write(begin, count, from) writes
/// them. Returns the log-sum-exp of all.
template <class Lse, class Read, class Write>
double merge_results(std::size_t results, std::int64_t features, Lse&& lse_of, Read&& read,
                     Write&& write) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::int64_t kStrip = 256;  // features that are summed at once, on the stack
  double largest = -kInfinity;
  bool nan = false;
  for (std::size_t k = 0; k < results; ++k) {
    const double lse = lse_of(k);
    nan = nan || std::isnan(lse);
    largest = std::max(largest, lse);
  }
  // Results of +inf count 1 each, and then nothing else counts.
  const auto weight_of = [&](double lse) -> double {
    if (largest == kInfinity) return lse == kInfinity ? 1 : 0;
    return std::exp(lse - largest);
  };
  double denominator = 0;
  for (std::size_t k = 0; k < results && largest != -kInfinity; ++k)
    denominator += weight_of(lse_of(k));
  if (nan) denominator = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t begin = 0; begin < features; begin += kStrip) {
    const std::int64_t count = std::min(kStrip, features - begin);
    double sum[kStrip] = {};
    double result[kStrip];
    for (std::size_t k = 0; k < results; ++k) {
      const double lse = lse_of(k);
      const double weight = weight_of(lse);
      // Results without weight are not read.
      if (lse == -kInfinity || (weight == 0 && largest == kInfinity)) continue;
      read(k, begin, count, result);
      for (std::int64_t x = 0; x < count; ++x) sum[x] += weight * result[x];
    }
    if (denominator > 0 || std::isnan(denominator))
      for (std::int64_t x = 0; x < count; ++x) sum[x] /= denominator;
    write(begin, count, sum);
  }
  return largest == -kInfinity && !nan ? largest : largest + std::log(denominator);
}

}  // namespace heed
