// The oracle of attention over graphs and of its gradients: straight loops in a wider type than
// heed computes in, and for every element of every output how far from it heed's result may be.
//
// One node and head, and what edges add, are in oracle/graph_row.hpp. The residual is one more sum.
// The data of the next step is what out holds, or would: rounded to its type.
//
// Gradients are computed analytically: weights come from the log-sum-exp (graph_row.hpp),
// everything else is made of products and sums of bounded numbers (bounded.hpp), in any order.
// Where two heads may be the largest, nobody knows which one the gradient goes to.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/dense.hpp"

namespace heed_test {

/// A graph as its edges are given.
struct EdgeList {
  Index nodes = 0;
  std::vector<Index> sources = {};
  std::vector<Index> destinations = {};
  bool unique = false;     ///< whether duplicates are removed
  Index source_nodes = 0;  ///< 0: edges lead from the nodes where they end

  Index size() const { return static_cast<Index>(sources.size()); }
  void add(Index source, Index destination);
};

/// Rows of keys and values.
inline Index sources_of(const EdgeList& edges) {
  return edges.source_nodes > 0 ? edges.source_nodes : edges.nodes;
}

/// The edges into every node that count, by number: sources in order, equal ones as given.
std::vector<std::vector<Index>> incoming(const EdgeList& edges);

/// The inputs, which have gradients.
enum GraphGradientOf : std::size_t {
  kGraphQuery,
  kGraphKey,
  kGraphValue,
  kGraphData,
  kGraphWQuery,
  kGraphWKey,
  kGraphWValue,
  kGraphBQuery,
  kGraphBKey,
  kGraphBValue,
  kGraphEdgeData,
  kGraphWEdgeKey,
  kGraphWEdgeValue,
  kGraphEdgeBias,
  kGraphHeadWeights,
  kGraphScoreWeights,
  kGraphGradients  ///< how many there are
};

/// What the oracle is given: matrices are as they are, never prepared.
struct GraphGiven {
  const heed_graph_attention_desc& desc;
  const EdgeList& edges;
  /// .data NULL: there is none. Of tensors over nodes and edges [0, head, row, feature], of
  /// matrices [matrix, 0, in, out], of vectors [0, 0, 0, element].
  std::array<Source, kGraphGradients> inputs{};
  Index first_nodes = 0;  ///< the only ones whose results are looked at, of one step; 0: all
  std::uint64_t dropout_seed = 0, dropout_offset = 0;
  const Index* dropout_edges = nullptr;  ///< the number of each edge, where it is not its place

  Index nodes() const { return first_nodes > 0 ? first_nodes : edges.nodes; }
  bool has(GraphGradientOf of) const { return inputs[of].data != nullptr; }
};

inline bool is_float64(const heed_graph_attention_desc& desc) {
  return desc.out.dtype == HEED_DTYPE_F64;
}

/// The type of the arithmetic.
inline std::uint32_t real_dtype(const heed_graph_attention_desc& desc) {
  return is_float64(desc) ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}

inline Index value_features_of(const heed_graph_attention_desc& desc) {
  return desc.value_features == 0 ? desc.features : desc.value_features;
}

inline Index steps_of(const heed_graph_attention_desc& desc) {
  return desc.steps == 0 ? 1 : desc.steps;
}

/// Heads that lie side by side in out: one where they are combined.
inline Index out_heads_of(const heed_graph_attention_desc& desc) {
  return desc.combine == HEED_COMBINE_CONCAT ? desc.heads : 1;
}

/// All outputs and their bounds, heads before rows: out is [out heads, nodes, value_features], lse
/// [heads, nodes], weights [heads, edges given].
Expected expect(const GraphGiven& given);

struct GraphBackwardGiven {
  GraphGiven forward;
  GivenGradients<kGraphGradients> gradients;
};

/// All that is asked for; the others are empty. Of tensors over nodes and edges [1, heads,
/// rows, features], of matrices [matrices, 1, in, out], of vectors [1, 1, 1, elements].
using ExpectedGraphGradients = std::array<std::vector<Element>, kGraphGradients>;

ExpectedGraphGradients expect_gradients(const GraphBackwardGiven& given);

}  // namespace heed_test
