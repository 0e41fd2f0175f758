// Cuts a graph into even parts, which depend on the graph alone.
#include <algorithm>

#include "engine/graph/graph.hpp"

namespace heed {
namespace {

/// Calls whole(first, last) for runs of nodes and on_hub(node) for hubs, in order.
template <class Whole, class OnHub>
void each_run(const heed_graph& graph, Whole&& whole, OnHub&& on_hub) {
  std::int64_t first = 0;
  std::int64_t size = 0;
  const auto flush = [&](std::int64_t last) {
    if (first < last) whole(first, last);
    first = last;
    size = 0;
  };
  for (std::int64_t n = 0; n < graph.nodes; ++n) {
    const std::int64_t edges = graph.offsets[n + 1] - graph.offsets[n];
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

std::int64_t splits_of(const heed_graph& graph, std::int64_t hub) {
  return (graph.offsets[hub + 1] - graph.offsets[hub] + kHubEdges - 1) / kHubEdges;
}

}  // namespace

void cut_into_parts(heed_graph& graph) {
  std::int64_t parts = 0;
  std::int64_t hubs = 0;
  each_run(
      graph, [&](std::int64_t, std::int64_t) { ++parts; },
      [&](std::int64_t n) {
        parts += splits_of(graph, n);
        ++hubs;
      });
  graph.parts = Array<Part>(graph.context->allocator, parts);
  graph.hubs = Array<Hub>(graph.context->allocator, hubs);

  Part* part = graph.parts.data();
  Hub* hub = graph.hubs.data();
  std::int32_t split = 0;
  each_run(
      graph,
      [&](std::int64_t first, std::int64_t last) {
        *part++ = {graph.offsets[first], graph.offsets[last], static_cast<std::int32_t>(first),
                   static_cast<std::int32_t>(last), kNoSplit};
      },
      [&](std::int64_t n) {
        const auto node = static_cast<std::int32_t>(n);
        *hub++ = {node, static_cast<std::int32_t>(splits_of(graph, n)), split,
                  static_cast<std::int32_t>(part - graph.parts.data())};
        for (std::int64_t e = graph.offsets[n]; e < graph.offsets[n + 1]; e += kHubEdges)
          *part++ = {e, std::min(e + kHubEdges, graph.offsets[n + 1]), node, node + 1, split++};
      });
  graph.splits = split;
  for (std::int64_t n = 0; n < graph.nodes; ++n) {
    const std::int64_t edges = graph.offsets[n + 1] - graph.offsets[n];
    graph.isolated += edges == 0 ? 1 : 0;
    graph.most = std::max(graph.most, edges);
  }
}

}  // namespace heed
