// How far a result is from attention computed in float64, and how far it may be.
#pragma once

#include "perf/workload.hpp"

namespace heed::perf {

struct Accuracy {
  double max_error;  ///< the largest |out - reference| of the rows looked at
  double bound;      ///< what rounding can amount to at most, at the element with the least room
  bool within;       ///< every element is within its own bound (a NaN is not)
};

/// Compares about 64 rows, spread over the batch, heads and queries, with a float64 loop.
Accuracy check_accuracy(const Workload& workload, const Tensors& tensors);

}  // namespace heed::perf
