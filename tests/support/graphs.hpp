// Graphs of the C API from C++, and the edge lists that tests make them of.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
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
template <class Index_>
struct GraphArrays {
  std::vector<Index_> sources, destinations, offsets;

  explicit GraphArrays(const EdgeList& edges) : offsets(static_cast<std::size_t>(edges.nodes) + 1) {
    for (const Index m : edges.sources) sources.push_back(static_cast<Index_>(m));
    for (const Index n : edges.destinations) {
      destinations.push_back(static_cast<Index_>(n));
      ++offsets[static_cast<std::size_t>(n) + 1];
    }
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  }
  heed_graph_desc desc(const EdgeList& edges, const GraphForm& form) const {
    heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
    desc.index_type = form.index_type;
    desc.nodes = edges.nodes;
    desc.edges = edges.size();
    desc.sources = sources.data();
    if (form.rows) desc.offsets = offsets.data();
    if (!form.rows) desc.destinations = destinations.data();
    desc.duplicates = edges.unique ? HEED_DUPLICATES_REMOVE : HEED_DUPLICATES_KEEP;
    if (edges.unique != form.rows) desc.duplicates = HEED_DUPLICATES_DEFAULT;
    desc.reverse = form.reverse ? 1 : 0;
    return desc;
  }
};

Graph make_graph(const Context& context, const EdgeList& edges, const GraphForm& form = {});
GraphPlan make_plan(const Context& context, const Graph& graph,
                    const heed_graph_attention_desc& desc);
GraphBackwardPlan make_plan(const Context& context, const Graph& graph,
                            const heed_graph_attention_backward_desc& desc);
heed_graph_info describe(const Graph& graph);
heed_graph_attention_info describe(const GraphPlan& plan);
heed_graph_attention_info describe(const GraphBackwardPlan& plan);

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
