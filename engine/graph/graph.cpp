#include "engine/graph/graph.hpp"

#include <algorithm>

#include "engine/graph/edges.hpp"
#include "engine/parallel/ranges.hpp"
#include "engine/runtime/error.hpp"
#include "engine/tensor/layout.hpp"

namespace heed {
namespace {

/// Writes the sorted edges into the graph; duplicates that are removed come at the end.
template <class Index>
class Writer {
 public:
  Writer(heed_graph& graph, Array<Index>& given, const Array<Edge<Index>>& edges, bool remove)
      : graph_(graph),
        given_(given),
        edges_(edges),
        remove_(remove),
        ranges_(Ranges::of(graph.context->threads, static_cast<std::int64_t>(edges.size()))),
        kept_(graph.context->allocator, ranges_.ranges + 1) {}

  void write() {
    const heed_context& context = *graph_.context;
    each_range(context.threads, ranges_, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
      kept_[r + 1] = 0;
      for (std::int64_t e = begin; e < end; ++e) kept_[r + 1] += stays(e) ? 1 : 0;
    });
    kept_[0] = 0;
    for (std::int64_t r = 0; r < ranges_.ranges; ++r) kept_[r + 1] += kept_[r];
    graph_.edges = kept_[ranges_.ranges];
    graph_.others = Array<std::int32_t>(context.allocator, graph_.edges + kSourcesAhead);
    if (!in_place())
      given_ = Array<Index>(context.allocator, static_cast<std::int64_t>(edges_.size()));
    each_range(context.threads, ranges_, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
      write_range(begin, end, kept_[r]);
    });
    std::fill_n(graph_.others.data() + graph_.edges, kSourcesAhead, 0);
    const std::int64_t after = edges_.size() > 0 ? edges_[size() - 1].destination + 1 : 0;
    std::fill(graph_.offsets.data() + after, graph_.offsets.end(), graph_.edges);
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(edges_.size()); }

  bool stays(std::int64_t e) const {
    return !remove_ || e == 0 || edges_[e].source != edges_[e - 1].source ||
           edges_[e].destination != edges_[e - 1].destination;
  }

  /// Whether the caller's order is the sorted one.
  bool in_place() const {
    return graph_.edges == size() &&
           first_where(graph_.context->threads, size(), [&](std::int64_t e) {
             return static_cast<std::int64_t>(edges_[e].given) != e;
           }) == size();
  }

  /// Of the edges before `begin`, `kept` stay.
  void write_range(std::int64_t begin, std::int64_t end, std::int64_t kept) {
    std::int64_t removed = graph_.edges + begin - kept;
    for (std::int64_t e = begin; e < end; ++e) {
      const Edge<Index>& edge = edges_[e];
      const bool stay = stays(e);
      if (given_.size() > 0) given_[stay ? kept : removed] = edge.given;
      removed += stay ? 0 : 1;
      if (!stay) continue;
      const std::int64_t last = e == 0 ? -1 : std::int64_t{edges_[e - 1].destination};
      std::fill(graph_.offsets.data() + last + 1, graph_.offsets.data() + edge.destination + 1,
                kept);
      graph_.others[kept++] = static_cast<std::int32_t>(edge.source);
    }
  }

  heed_graph& graph_;
  Array<Index>& given_;
  const Array<Edge<Index>>& edges_;
  const bool remove_;
  const Ranges ranges_;
  Array<std::int64_t> kept_;  ///< [ranges + 1] edges kept before each range
};

template <class Index>
void fill(heed_graph& graph, Array<Index>& given, const heed_graph_desc& desc) {
  const heed_context& context = *graph.context;
  Array<Edge<Index>> edges = read_edges<Index>(context, desc);
  sort_edges(context, std::max(graph.nodes, graph.sources()), edges);
  const bool listed = desc.offsets == nullptr;
  const bool remove = desc.duplicates == HEED_DUPLICATES_REMOVE ||
                      (desc.duplicates == HEED_DUPLICATES_DEFAULT && listed);
  Writer<Index>(graph, given, edges, remove).write();
}

void count(heed_graph& graph) {
  for (std::int64_t n = 0; n < graph.nodes; ++n) {
    const std::int64_t edges = graph.offsets[n + 1] - graph.offsets[n];
    graph.isolated += edges == 0 ? 1 : 0;
    graph.most = std::max(graph.most, edges);
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
      fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s is %lld; it must be 0 to %lld", field,
           static_cast<long long>(nodes), static_cast<long long>(kMostNodes));
  };
  check_nodes("nodes", desc.nodes);
  check_nodes("source_nodes", desc.source_nodes);
  if (desc.source_nodes > 0 && desc.reverse != 0)
    fail(HEED_STATUS_UNSUPPORTED, "desc.reverse is 1; it must be 0 with desc.source_nodes, %lld",
         static_cast<long long>(desc.source_nodes));
  check_size("edges", desc.edges, 0);
  const std::int64_t bytes = desc.index_type == HEED_INDEX_I64 ? 8 : 4;
  check_alignment("desc.sources", desc.sources, bytes);
  check_alignment("desc.destinations", desc.destinations, bytes);
  check_alignment("desc.offsets", desc.offsets, bytes);
  if (desc.edges == 0 && desc.sources != nullptr) refuse_empty("desc.sources", "edges");
  if (desc.edges == 0 && desc.destinations != nullptr) refuse_empty("desc.destinations", "edges");
  if (desc.edges > 0 && desc.sources == nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.sources is NULL; desc.edges is %lld",
         static_cast<long long>(desc.edges));
  if (desc.offsets != nullptr && desc.destinations != nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.destinations and desc.offsets are both given; give one of them");
  if (desc.edges > 0 && desc.offsets == nullptr && desc.destinations == nullptr)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.destinations and desc.offsets are both NULL; desc.edges is %lld",
         static_cast<long long>(desc.edges));
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
    graph->offsets = Array<std::int64_t>(context.allocator, desc.nodes + 1);
    if (desc.edges <= UINT32_MAX) {
      fill(*graph, graph->given32, desc);
    } else {
      fill(*graph, graph->given64, desc);
    }
    count(*graph);
    cut_into_parts(*graph, *graph);
    if (desc.reverse != 0) make_outgoing(*graph);
  } catch (...) {
    graph->context = &context;
    release(graph);
    throw;
  }
  return graph;
}

std::size_t bytes_of(const heed_graph& graph) {
  return sizeof graph + graph.bytes() + graph.outgoing.bytes();
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
