// What a graph and the descriptor and arguments of attention over it mean: which edges count, and
// where the numbers lie.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/inputs.hpp"

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

/// All features of all heads of a row side by side.
template <class Wide>
BoundedRows<Wide> exact_rows(const Source& from, Index rows, Index heads, Index features) {
  BoundedRows<Wide> all{heads * features};
  all.numbers.reserve(static_cast<std::size_t>(rows * all.columns));
  for (Index i = 0; i < rows; ++i)
    for (Index h = 0; h < heads; ++h)
      for (Index x = 0; x < features; ++x)
        all.numbers.push_back({static_cast<Wide>(from.at(0, h, i, x)), 0});
  return all;
}

}  // namespace heed_test
