#include "engine/graph/graph.hpp"

#include <algorithm>

#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {
namespace {

void count(heed_graph& graph) {
  for (std::int64_t n = 0; n < graph.nodes; ++n) {
    const std::int64_t edges = graph.offsets[n + 1] - graph.offsets[n];
    graph.isolated += edges == 0 ? 1 : 0;
    graph.most = std::max(graph.most, edges);
  }
}

/// Cuts an order of the graph's edges into even ranges, which depend on the graph alone. They are
/// counted first, and then written.
void cut_into_ranges(const heed_graph& graph, EdgeOrder& order) {
  const std::int64_t* const offsets = order.offsets.data();
  for (const bool writes : {false, true}) {
    std::int64_t ranges = 0;
    std::int64_t hubs = 0;
    std::int64_t splits = 0;
    const auto add = [&](std::int64_t begin, std::int64_t end, std::int64_t first,
                         std::int64_t last, std::int64_t split) {
      if (writes)
        order.ranges[ranges] = {begin, end, static_cast<std::int32_t>(first),
                                static_cast<std::int32_t>(last), static_cast<std::int32_t>(split)};
      ++ranges;
    };
    std::int64_t first = 0;  // of the range that grows
    const auto end_range = [&](std::int64_t last) {
      if (first < last) add(offsets[first], offsets[last], first, last, kNoSplit);
      first = last;
    };
    for (std::int64_t n = 0; n < graph.nodes; ++n) {
      const std::int64_t edges = offsets[n + 1] - offsets[n];
      if (edges > kHubEdges) {
        end_range(n);
        if (writes)
          order.hubs[hubs] = {static_cast<std::int32_t>(n),
                              static_cast<std::int32_t>(ceil_div(edges, kHubEdges)),
                              static_cast<std::int32_t>(splits), static_cast<std::int32_t>(ranges)};
        ++hubs;
        for (std::int64_t e = offsets[n]; e < offsets[n + 1]; e += kHubEdges)
          add(e, std::min(e + kHubEdges, offsets[n + 1]), n, n + 1, splits++);
        first = n + 1;
      } else if (offsets[n + 1] - offsets[first] + n + 1 - first >= kRangeSize) {
        end_range(n + 1);
      }
    }
    end_range(graph.nodes);
    if (writes) {
      order.splits = splits;
    } else {
      order.ranges = Array<NodeRange>(graph.context->allocator, ranges);
      order.hubs = Array<Hub>(graph.context->allocator, hubs);
    }
  }
}

}  // namespace

void validate(const heed_graph_desc& desc) {
  constexpr std::int64_t kMostNodes = INT32_MAX;
  check_choice("index_type", desc.index_type, "a heed_index_type", HEED_INDEX_I64);
  check_choice("duplicates", desc.duplicates, "a heed_duplicates", HEED_DUPLICATES_KEEP);
  check_choice("reverse", desc.reverse, "a switch", 1);
  const auto check_nodes = [](const char* field, std::int64_t nodes) {
    if (nodes < 0 || nodes > kMostNodes)
      refuse("desc.%s is %lld; it must be 0 to %lld", field, lld(nodes), lld(kMostNodes));
  };
  check_nodes("nodes", desc.nodes);
  check_nodes("source_nodes", desc.source_nodes);
  if (desc.source_nodes > 0 && desc.reverse != 0)
    fail(HEED_STATUS_UNSUPPORTED, "desc.reverse is 1; it must be 0 with desc.source_nodes, %lld",
         lld(desc.source_nodes));
  check_size("edges", desc.edges, 0);
  const std::int64_t bytes = desc.index_type == HEED_INDEX_I64 ? 8 : 4;
  check_alignment("desc.sources", desc.sources, bytes);
  check_alignment("desc.destinations", desc.destinations, bytes);
  check_alignment("desc.offsets", desc.offsets, bytes);
  if (desc.edges == 0 && desc.sources != nullptr) refuse_empty("desc.sources", "edges");
  if (desc.edges == 0 && desc.destinations != nullptr) refuse_empty("desc.destinations", "edges");
  if (desc.edges > 0 && desc.sources == nullptr)
    refuse("desc.sources is NULL; desc.edges is %lld", lld(desc.edges));
  if (desc.offsets != nullptr && desc.destinations != nullptr)
    refuse("desc.destinations and desc.offsets are both given; give one of them");
  if (desc.edges > 0 && desc.offsets == nullptr && desc.destinations == nullptr)
    refuse("desc.destinations and desc.offsets are both NULL; desc.edges is %lld", lld(desc.edges));
}

heed_graph* make_graph(const heed_context& context, const heed_graph_desc& desc) {
  check_edges(context, desc);
  heed_graph* const graph = make<heed_graph>(context.allocator);
  share(context);
  try {
    graph->context = &context;
    graph->nodes = desc.nodes;
    graph->source_nodes = desc.source_nodes;
    graph->edges_given = desc.edges;
    sort_edges(*graph, desc);
    count(*graph);
    cut_into_ranges(*graph, *graph);
    if (desc.reverse != 0) {
      sort_outgoing(*graph);
      cut_into_ranges(*graph, graph->outgoing);
      graph->reversible = true;
    }
  } catch (...) {
    graph->context = &context;
    release(graph);
    throw;
  }
  return graph;
}

void share(const heed_graph& graph) noexcept {
  graph.owners.fetch_add(1, std::memory_order_relaxed);
}

void release(const heed_graph* graph) noexcept {
  if (graph->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const heed_context* const context = graph->context;
  destroy(context->allocator, const_cast<heed_graph*>(graph));
  release(context);
}

}  // namespace heed
