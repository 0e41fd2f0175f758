// Graphs of the C API from C++, and the edge lists that tests make them of.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/graph_inputs.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/random.hpp"

namespace heed_test {

/// How a graph is handed in.
struct GraphForm {
  bool rows = false;  ///< by offsets: needs edges in order of their destinations
  std::uint32_t index_type = HEED_INDEX_DEFAULT;
  bool reverse = false;  ///< with edges sorted by source too
};

/// The arrays that a descriptor of a graph points at.
struct GraphArrays {
  GraphArrays(const EdgeList& edges, const GraphForm& form);
  /// Valid until anything is changed.
  heed_graph_desc desc();

  std::vector<std::int64_t> sources, ends;  ///< ends: offsets of rows, or destinations

 private:
  heed_graph_desc desc_ = HEED_GRAPH_DESC_INIT;
  bool rows_;
  std::vector<std::int32_t> narrow_sources_, narrow_ends_;
};

Graph make_graph(const Context& context, const EdgeList& edges, const GraphForm& form = {});

// ---- Edge lists ----

/// Element i of the result is edge order[i].
EdgeList reordered(const EdgeList& edges, const std::vector<std::size_t>& order);

/// 0 to n - 1 in a random order (Fisher and Yates).
std::vector<std::size_t> random_order(std::size_t n, Random& random);

/// As rows of a graph must be.
EdgeList by_destination(const EdgeList& edges);

EdgeList random_edges(Index nodes, Index edges, std::uint64_t seed);

/// Every node attends to every node, itself included.
EdgeList complete_graph(Index nodes);

/// Every node has an edge to node `hub`, some many; and a few edges end elsewhere.
EdgeList hub_graph(Index nodes, Index edges, Index hub, std::uint64_t seed);

}  // namespace heed_test
