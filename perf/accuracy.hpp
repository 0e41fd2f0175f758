// How far results are from the oracle's, and how far they may be.
#pragma once

#include <benchmark/benchmark.h>

#include <string>

#include "perf/tensors.hpp"
#include "perf/workload.hpp"
#include "tests/oracle/element.hpp"

namespace heed::perf {

struct Accuracy {
  double max_error = 0;  ///< the largest |result - truth| of the elements looked at
  double squares = 0;    ///< the sum of (result - truth)^2 of `elements`
  double elements = 0;
  double bound = 0;  ///< what rounding can amount to, at the element with the least room
  double used = -1;  ///< how much of its bound that element's error is; -1: none looked at

  /// The root of the mean of the squares.
  double rms_error() const;

  void compare(double got, const oracle::Element& want);
};

/// Adds both errors to a row of a table, or also their bound and the threads that a run uses.
void count(const Accuracy& accuracy, benchmark::UserCounters& counters);
void count(const Accuracy& accuracy, unsigned workers, benchmark::UserCounters& counters);

/// Throws std::runtime_error where a workload's results are off by more than they may be.
void demand(const Accuracy& accuracy, const std::string& workload);

/// Compares out, lse and weights in about 64 rows, spread over the batch, heads and queries, and
/// the column sums of one head.
Accuracy check_accuracy(const Workload& workload, Tensors& tensors);

}  // namespace heed::perf
