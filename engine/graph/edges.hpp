// Reads a caller's edges and sorts them.
#pragma once

#include <cstdint>

#include "api/heed.h"
#include "engine/context/context.hpp"
#include "engine/runtime/allocator.hpp"

namespace heed {

/// One edge while it is sorted; Index is wide enough for the number of edges given.
template <class Index>
struct Edge {
  std::uint32_t source;
  std::uint32_t destination;
  Index given;  ///< its place in the caller's order
};

/// Throws an Error that names the first invalid entry.
void check_edges(const heed_context& context, const heed_graph_desc& desc);

/// The edges of a checked descriptor, in the caller's order.
template <class Index>
Array<Edge<Index>> read_edges(const heed_context& context, const heed_graph_desc& desc);

/// Sorts by destination, then source, then place: least significant digit first, in parallel. The
/// sort is stable, so the result does not depend on the threads. Nodes are below `nodes`.
template <class Index>
void sort_edges(const heed_context& context, std::int64_t nodes, Array<Edge<Index>>& edges);

}  // namespace heed
