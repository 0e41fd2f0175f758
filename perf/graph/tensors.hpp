// The tensors that attention over a graph computes with.
#pragma once

#include <cstdint>
#include <memory>

#include "perf/graph/workload.hpp"
#include "perf/tensors.hpp"

namespace heed::perf {

/// [nodes or edges, heads, features] each; outputs are NaN until something computes them.
struct GraphTensors {
  GraphTensors(const GraphWorkload& workload, std::int64_t edges);
  heed_graph_attention_args args();

  Tensor query;
  Tensor key;
  Tensor value;
  Tensor out;

  // Without elements where the workload has none.
  Tensor bias;     ///< [edges, heads]
  Tensor lse;      ///< [nodes, heads]
  Tensor weights;  ///< [edges, heads]
};

/// The tensors of a workload. Those of the latest one alone are kept: they may fill the machine.
std::shared_ptr<GraphTensors> graph_tensors_of(const GraphWorkload& workload, std::int64_t edges);

}  // namespace heed::perf
