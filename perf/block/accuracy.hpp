// How far the results of a multi-head block are from one computed in float64.
#pragma once

#include "perf/accuracy.hpp"
#include "perf/block/tensors.hpp"

namespace heed::perf {

/// Compares some rows of out of the last batch item, from its first to its last, and the weights'
/// of none: attention's own outputs are checked by its own rows.
Accuracy check_block_accuracy(const Workload& workload, BlockTensors& tensors);

}  // namespace heed::perf
