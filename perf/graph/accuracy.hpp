// How far attention over a graph is from attention computed in float64, and how far it may be.
#pragma once

#include "perf/accuracy.hpp"
#include "perf/graph/edges.hpp"
#include "perf/graph/tensors.hpp"
#include "perf/graph/workload.hpp"

namespace heed::perf {

/// Compares out, lse and weights at about 64 nodes from the first to the last, and at the one with
/// the most edges, with what dense attention over each node's sources is by the book.
Accuracy check_accuracy(const GraphWorkload& workload, const Edges& edges,
                        const GraphTensors& tensors);

}  // namespace heed::perf
