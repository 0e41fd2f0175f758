// How far results are from attention computed in float64, and how far they may be.
#pragma once

#include <benchmark/benchmark.h>

#include <string>

#include "perf/tensors.hpp"
#include "perf/workload.hpp"

namespace heed::perf {

struct Accuracy {
  double max_error = 0;  ///< the largest |result - reference| of the elements looked at
  double squares = 0;    ///< the sum of (result - reference)^2 of `elements`
  double elements = 0;
  double bound = 0;    ///< what rounding can amount to, at the element with the least room
  double used = -1;    ///< how much of its bound that element's error is; -1: none looked at
  bool within = true;  ///< every element is within its own bound (a NaN is not)

  /// The root of the mean of the squares.
  double rms_error() const;

  /// Looks at an element, or at all that another one has looked at.
  void compare(double got, double wanted, double bound_of_it);
  void include(const Accuracy& other);
};

/// Adds both errors to a row of a table.
void count(const Accuracy& accuracy, benchmark::UserCounters& counters);

/// Throws std::runtime_error where a workload's results are off by more than they may be.
void demand(const Accuracy& accuracy, const std::string& workload);

/// Compares about 64 rows of out, lse and weights each, spread over the batch, heads and queries,
/// and the column sums of one head, with a float64 loop.
Accuracy check_accuracy(const Workload& workload, const Tensors& tensors);

}  // namespace heed::perf
