// How far results are from the oracle's, and how far they may be.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "perf/tensors.hpp"

namespace heed::perf {

struct Accuracy {
  double max_error = 0;  ///< the largest |result - truth| of the elements looked at
  double squares = 0;    ///< the sum of (result - truth)^2 of `elements`
  double elements = 0;
  double bound = 0;  ///< what rounding can amount to, at the element with the least room
  double slack = 0;  ///< is added to every bound but 0
  double used = -1;  ///< how much of its bound that element's error is; -1: none looked at

  /// The root of the mean of the squares.
  double rms_error() const;

  void compare(double got, oracle::Element want);
};

/// Calls visit(batch, head, row) for at most `count` of the rows of all heads, in order and spread
/// from the first to the last, so that both ends of a causal mask are among them. rows_of(batch):
/// those of each of its heads.
template <class RowsOf, class Visit>
void visit_rows(std::int64_t batches, std::int64_t heads, std::int64_t count, RowsOf&& rows_of,
                Visit&& visit) {
  std::int64_t rows = 0;
  for (std::int64_t b = 0; b < batches; ++b) rows += heads * rows_of(b);
  const std::int64_t visited = std::min(rows, count);
  std::int64_t batch = 0;
  std::int64_t before = 0;  // rows of earlier batches
  for (std::int64_t n = 0; n < visited; ++n) {
    const std::int64_t index = visited > 1 ? n * (rows - 1) / (visited - 1) : 0;
    while (index >= before + heads * rows_of(batch)) before += heads * rows_of(batch++);
    visit(batch, (index - before) / rows_of(batch), (index - before) % rows_of(batch));
  }
}

/// Adds both errors to a row of a table, or also their bound and the threads that a run uses.
void count(const Accuracy& accuracy, benchmark::UserCounters& counters);
void count(const Accuracy& accuracy, unsigned workers, benchmark::UserCounters& counters);

/// Throws std::runtime_error where a workload's results are off by more than they may be.
void demand(const Accuracy& accuracy, const std::string& workload);
/// The same of what check() finds, unless that is known.
template <class Check>
void demand(std::optional<Accuracy>& known, const std::string& workload, Check&& check) {
  if (!known) known = check();
  demand(*known, workload);
}

/// Compares out, lse and weights in about 64 rows, spread over the batch, heads and queries, and
/// the column sums of one head, with the bounds of the precision in effect. All may be off by
/// `slack` more.
Accuracy check_accuracy(oracle::Problem& problem, std::uint32_t precision = HEED_PRECISION_EXACT,
                        double slack = 0);

}  // namespace heed::perf
