// Problems over graphs that several tests have.
#pragma once

#include "tests/support/checks.hpp"

namespace heed_test {

/// Queries, keys and values are given; every output is asked for.
inline GraphProblem projected_problem(const EdgeList& edges, Index heads, Index features,
                                      Index value_features, const Types& types = {},
                                      std::uint64_t seed = 1) {
  GraphProblem p(edges, graph_desc(heads, features, value_features, types));
  p.add({kGraphLse, kGraphWeights});
  p.fill(seed);
  return p;
}

/// Queries, keys and values are made of data.
inline heed_graph_attention_desc of_data(std::uint32_t inputs, Index width, Index heads,
                                         Index features, Index value_features,
                                         const Types& types = {}) {
  heed_graph_attention_desc d = graph_desc(heads, features, value_features);
  d.inputs = inputs;
  d.width = width;
  set_types(d, types);
  return d;
}

/// Everything that edges may have.
inline void add_edge_tensors(GraphProblem& p, Index width,
                             std::uint32_t dtype = HEED_DTYPE_DEFAULT) {
  p.desc.edge_width = width;
  p.desc.edge_data.dtype = p.desc.w_edge_key.dtype = p.desc.w_edge_value.dtype = dtype;
  p.add({kGraphEdgeBias, kGraphEdgeData, kGraphWEdgeKey, kGraphWEdgeValue});
}

}  // namespace heed_test
