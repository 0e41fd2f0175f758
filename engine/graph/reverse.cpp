// Sorts a graph's edges by source, then destination: what gradients of keys and values gather
// along.
#include <algorithm>
#include <utility>

#include "engine/graph/edges.hpp"
#include "engine/graph/graph.hpp"
#include "engine/parallel/ranges.hpp"

namespace heed {
namespace {

/// The edges as they are sorted by destination, each with its ends swapped.
template <class Index>
Array<Edge<Index>> swapped(const heed_graph& graph) {
  const heed_context& context = *graph.context;
  Array<Edge<Index>> edges(context.allocator, graph.edges);
  const Ranges nodes = Ranges::of(context.threads, graph.nodes);
  each_range(context.threads, nodes, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      for (std::int64_t e = graph.offsets[n]; e < graph.offsets[n + 1]; ++e)
        edges[e] = {static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(graph.others[e]),
                    static_cast<Index>(graph.given(e))};
  });
  return edges;
}

template <class Index>
void fill(heed_graph& graph, Array<Index>& given) {
  const heed_context& context = *graph.context;
  EdgeOrder& order = graph.outgoing;
  Array<Edge<Index>> edges = swapped<Index>(graph);
  sort_edges(context, graph.nodes, edges);
  order.offsets = Array<std::int64_t>(context.allocator, graph.nodes + 1);
  order.others = Array<std::int32_t>(context.allocator, graph.edges + kSourcesAhead);
  given = Array<Index>(context.allocator, graph.edges);
  const auto source = [&](std::int64_t e) { return std::int64_t{edges[e].destination}; };
  each_range(context.threads, Ranges::of(context.threads, graph.edges),
             [&](std::int64_t, std::int64_t begin, std::int64_t end) {
               for (std::int64_t e = begin; e < end; ++e) {
                 const std::int64_t last = e == 0 ? -1 : source(e - 1);
                 std::fill(order.offsets.data() + last + 1, order.offsets.data() + source(e) + 1,
                           e);
                 order.others[e] = static_cast<std::int32_t>(edges[e].source);
                 given[e] = edges[e].given;
               }
             });
  std::fill_n(order.others.data() + graph.edges, kSourcesAhead, 0);
  const std::int64_t after = graph.edges > 0 ? source(graph.edges - 1) + 1 : 0;
  std::fill(order.offsets.data() + after, order.offsets.end(), graph.edges);
}

}  // namespace

void make_outgoing(heed_graph& graph) {
  if (graph.edges_given <= UINT32_MAX) {
    fill(graph, graph.outgoing.given32);
  } else {
    fill(graph, graph.outgoing.given64);
  }
  cut_into_parts(graph, graph.outgoing);
  graph.reversible = true;
}

}  // namespace heed
