// A graph as attention uses it: edges sorted by destination and source, cut into ranges of even
// work.
#pragma once

#include <atomic>
#include <cstdint>

#include "api/heed.h"
#include "engine/context/context.hpp"
#include "engine/runtime/allocator.hpp"

namespace heed {

/// The fewest edges and nodes together in a range, except in the last: some 100 microseconds of
/// work, so that threads end together.
inline constexpr std::int64_t kRangeSize = 2048;

/// A node with more edges is a hub: it is split into ranges of this many edges, whose results are
/// merged. So bits depend on this number.
inline constexpr std::int64_t kHubEdges = 8192;

/// Edges that are computed together: their scores fit the L1 cache. They share a decision to
/// rescale, so bits depend on this number.
inline constexpr std::size_t kBatch = 32;

/// The last end of an edge is followed by this many more, all node 0, for code that looks ahead.
inline constexpr std::int64_t kSourcesAhead = 32;

/// Edges [begin, end): all that end at the nodes [first, last), or some that end at the
/// hub `first`.
struct NodeRange {
  std::int64_t begin, end;
  std::int32_t first, last;
  std::int32_t split;  ///< numbered through all hubs; kNoSplit: whole nodes
};
inline constexpr std::int32_t kNoSplit = -1;

struct Hub {
  std::int32_t node;
  std::int32_t splits;
  std::int32_t first_split;
  std::int32_t first_range;  ///< one range per split
};

/// Edges sorted by one of their ends, then by the other.
struct EdgeOrder {
  Array<std::int64_t> offsets;  ///< [nodes + 1] edges of node n begin at offsets[n]
  Array<std::int32_t> others;   ///< [edges + kSourcesAhead] the other end of each edge
  /// [edges] where each edge lies in the caller's order. One of the two is used, or none if the
  /// orders are the same.
  Array<std::uint32_t> given32;
  Array<std::int64_t> given64;
  Array<NodeRange> ranges;
  Array<Hub> hubs;
  std::int64_t splits;  ///< of all hubs

  std::int64_t given(std::int64_t edge) const {
    if (given32.size() > 0) return given32[edge];
    return given64.size() > 0 ? given64[edge] : edge;
  }
  std::size_t bytes() const {
    return offsets.bytes() + others.bytes() + given32.bytes() + given64.bytes() + ranges.bytes() +
           hubs.bytes();
  }
};

}  // namespace heed

/// The C API's opaque type. Plans share it, so its owners are counted. Sorted by destination; the
/// order of edges that were removed follows at the end of given32 or given64.
struct heed_graph : heed::EdgeOrder {
  const heed_context* context;
  std::int64_t nodes;
  std::int64_t source_nodes;  ///< 0: edges lead from the same nodes
  std::int64_t edges;
  std::int64_t edges_given;
  std::int64_t isolated;     ///< nodes without edges
  std::int64_t most;         ///< edges of the node that has most
  bool reversible;           ///< has the next
  heed::EdgeOrder outgoing;  ///< sorted by source
  mutable std::atomic<std::uint32_t> owners{1};

  /// How many nodes edges may lead from.
  std::int64_t sources() const { return source_nodes > 0 ? source_nodes : nodes; }
  /// Memory that the graph holds.
  std::size_t all_bytes() const { return sizeof *this + bytes() + outgoing.bytes(); }
};

namespace heed {

/// Throws an Error that names the field, its value and the bound.
void validate(const heed_graph_desc& desc);

/// Makes the graph of a validated descriptor. Throws an Error that names an invalid entry of the
/// caller's arrays.
heed_graph* make_graph(const heed_context& context, const heed_graph_desc& desc);

/// Throws an Error that names the first invalid entry of the caller's arrays.
void check_edges(const heed_context& context, const heed_graph_desc& desc);

/// Fills in the edges of a checked descriptor, sorted by destination.
void sort_edges(heed_graph& graph, const heed_graph_desc& desc);

/// Sorts the edges of a graph by source too.
void sort_outgoing(heed_graph& graph);

void share(const heed_graph& graph) noexcept;
/// Gives up one owner's share; the last one destroys the graph.
void release(const heed_graph* graph) noexcept;

}  // namespace heed
