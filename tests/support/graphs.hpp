// Graphs of the C API from C++, and the edge lists that tests make them of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "api/heed.h"
#include "tests/reference/graph_inputs.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/random.hpp"

namespace heed_test {

struct DestroyGraph {
  void operator()(heed_graph* graph) const { heed_graph_destroy(graph); }
  void operator()(heed_graph_attention_plan* plan) const {
    heed_graph_attention_plan_destroy(plan);
  }
};
using Graph = std::unique_ptr<heed_graph, DestroyGraph>;
using GraphPlan = std::unique_ptr<heed_graph_attention_plan, DestroyGraph>;

/// How a graph is handed in.
struct GraphForm {
  bool rows = false;  ///< by offsets: needs edges in order of their destinations
  std::uint32_t index_type = HEED_INDEX_DEFAULT;
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
    return desc;
  }
};

template <class Index_>
Graph make_graph_of(const Context& context, const EdgeList& edges, const GraphForm& form) {
  const GraphArrays<Index_> arrays(edges);
  const heed_graph_desc desc = arrays.desc(edges, form);
  heed_graph* graph = nullptr;
  require_ok(heed_graph_create(context.get(), &desc, &graph));
  return Graph(graph);
}

inline Graph make_graph(const Context& context, const EdgeList& edges, const GraphForm& form = {}) {
  return form.index_type == HEED_INDEX_I64 ? make_graph_of<std::int64_t>(context, edges, form)
                                           : make_graph_of<std::int32_t>(context, edges, form);
}

inline GraphPlan make_plan(const Context& context, const Graph& graph,
                           const heed_graph_attention_desc& desc) {
  heed_graph_attention_plan* plan = nullptr;
  require_ok(heed_graph_attention_plan_create(context.get(), graph.get(), &desc, &plan));
  return GraphPlan(plan);
}

inline heed_graph_info describe(const Graph& graph) {
  heed_graph_info info = HEED_GRAPH_INFO_INIT;
  require_ok(heed_graph_describe(graph.get(), &info));
  return info;
}

inline heed_graph_attention_info describe(const GraphPlan& plan) {
  heed_graph_attention_info info = HEED_GRAPH_ATTENTION_INFO_INIT;
  require_ok(heed_graph_attention_plan_describe(plan.get(), &info));
  return info;
}

// ---- Edge lists
// ----------------------------------------------------------------------------------

/// Element i of the result is edge order[i].
inline EdgeList reordered(const EdgeList& edges, const std::vector<std::size_t>& order) {
  EdgeList result{edges.nodes, {}, {}, edges.unique};
  for (const std::size_t e : order) result.add(edges.sources[e], edges.destinations[e]);
  return result;
}

/// 0 to n - 1 in a random order (Fisher and Yates).
inline std::vector<std::size_t> random_order(std::size_t n, Random& random) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.bits() % i]);
  return order;
}

/// As rows of a graph must be.
inline EdgeList by_destination(const EdgeList& edges) {
  std::vector<std::size_t> order(edges.sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return edges.destinations[a] < edges.destinations[b];
  });
  return reordered(edges, order);
}

inline EdgeList random_edges(Index nodes, Index edges, std::uint64_t seed) {
  EdgeList list{nodes, {}, {}, false};
  Random random(seed);
  for (Index e = 0; e < edges; ++e)
    list.add(random.integer(0, nodes - 1), random.integer(0, nodes - 1));
  return list;
}

/// Every node attends to every node, itself included.
inline EdgeList complete_graph(Index nodes) {
  EdgeList list{nodes, {}, {}, false};
  for (Index n = 0; n < nodes; ++n)
    for (Index m = 0; m < nodes; ++m) list.add(m, n);
  return list;
}

/// Every node has an edge to node `hub`, some many; and a few edges end elsewhere.
inline EdgeList hub_graph(Index nodes, Index edges, Index hub, std::uint64_t seed) {
  EdgeList list{nodes, {}, {}, false};
  Random random(seed);
  for (Index e = 0; e < edges; ++e) {
    const Index n = random.integer(0, 19) == 0 ? random.integer(0, nodes - 1) : hub;
    list.add(random.integer(0, nodes - 1), n);
  }
  return list;
}

}  // namespace heed_test
