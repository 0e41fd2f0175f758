// Cuts a graph into even parts, which depend on the graph alone.
#include <algorithm>

#include "engine/graph/graph.hpp"

namespace heed {
namespace {

/// Calls whole(first, last) for runs of nodes and on_hub(node) for hubs, in order.
template <class Whole, class OnHub>
void each_run(const heed_graph& graph, const EdgeOrder& order, Whole&& whole, OnHub&& on_hub) {
  std::int64_t first = 0;
  std::int64_t size = 0;
  const auto flush = [&](std::int64_t last) {
    if (first < last) whole(first, last);
    first = last;
    size = 0;
  };
  for (std::int64_t n = 0; n < graph.nodes; ++n) {
    const std::int64_t edges = order.offsets[n + 1] - order.offsets[n];
    if (edges > kHubEdges) {
      flush(n);
      on_hub(n);
      first = n + 1;
      continue;
    }
    size += edges + 1;
    if (size >= kPartSize) flush(n + 1);
  }
  flush(graph.nodes);
}

std::int64_t splits_of(const EdgeOrder& order, std::int64_t hub) {
  return (order.offsets[hub + 1] - order.offsets[hub] + kHubEdges - 1) / kHubEdges;
}

}  // namespace

void cut_into_parts(const heed_graph& graph, EdgeOrder& order) {
  std::int64_t parts = 0;
  std::int64_t hubs = 0;
  each_run(
      graph, order, [&](std::int64_t, std::int64_t) { ++parts; },
      [&](std::int64_t n) {
        parts += splits_of(order, n);
        ++hubs;
      });
  order.parts = Array<Part>(graph.context->allocator, parts);
  order.hubs = Array<Hub>(graph.context->allocator, hubs);

  Part* part = order.parts.data();
  Hub* hub = order.hubs.data();
  std::int32_t split = 0;
  each_run(
      graph, order,
      [&](std::int64_t first, std::int64_t last) {
        *part++ = {order.offsets[first], order.offsets[last], static_cast<std::int32_t>(first),
                   static_cast<std::int32_t>(last), kNoSplit};
      },
      [&](std::int64_t n) {
        const auto node = static_cast<std::int32_t>(n);
        *hub++ = {node, static_cast<std::int32_t>(splits_of(order, n)), split,
                  static_cast<std::int32_t>(part - order.parts.data())};
        for (std::int64_t e = order.offsets[n]; e < order.offsets[n + 1]; e += kHubEdges)
          *part++ = {e, std::min(e + kHubEdges, order.offsets[n + 1]), node, node + 1, split++};
      });
  order.splits = split;
}

}  // namespace heed
