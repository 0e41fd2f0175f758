// How far results are from attention computed in float64, and how far they may be.
#pragma once

#include <string>

#include "perf/tensors.hpp"
#include "perf/workload.hpp"

namespace heed::perf {

struct Accuracy {
  double max_error = 0;  ///< the largest |result - reference| of the elements looked at
  double bound = 0;      ///< what rounding can amount to, at the element with the least room
  bool within = true;    ///< every element is within its own bound (a NaN is not)
};

/// What to say where it is not within.
std::string excess_text(const Accuracy& accuracy);

/// Compares about 64 rows of out, lse and weights each, spread over the batch, heads and queries,
/// and the column sums of one head, with a float64 loop.
Accuracy check_accuracy(const Workload& workload, const Tensors& tensors);

}  // namespace heed::perf
