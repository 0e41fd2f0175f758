// The edges of a graph: checked and read from the caller's arrays, sorted by one end and then by
// the other, and written into the graph.
#include <algorithm>
#include <utility>

#include "engine/graph/graph.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

/// One edge while it is sorted; Index is wide enough for the number of edges given.
template <class Index>
struct Edge {
  std::uint32_t source;
  std::uint32_t destination;
  Index given;  ///< its place in the caller's order
};

// ---- Reading: every entry is checked before any is used ---------------------------------------

/// Calls function(Index{}) with the type of the caller's indices.
template <class Function>
auto with_index_type(const heed_graph_desc& desc, Function&& function) {
  if (desc.index_type == HEED_INDEX_I64) return function(std::int64_t{});
  return function(std::int32_t{});
}

template <class Index>
void check_nodes(const heed_context& context, const char* field, const Index* indices,
                 std::int64_t nodes, const heed_graph_desc& desc) {
  const std::int64_t wrong = first_where(context.threads, desc.edges, [&](std::int64_t e) {
    return indices[e] < 0 || indices[e] >= nodes;
  });
  if (wrong == desc.edges) return;
  const long long value = lld(indices[wrong]);
  if (nodes == 0) refuse("desc.%s[%lld] is %lld; desc.nodes is 0", field, lld(wrong), value);
  refuse("desc.%s[%lld] is %lld; it must be 0 to %lld", field, lld(wrong), value, lld(nodes - 1));
}

template <class Index>
void check_offsets(const heed_context& context, const Index* offsets, const heed_graph_desc& desc) {
  if (offsets[0] != 0) refuse("desc.offsets[0] is %lld; it must be 0", lld(offsets[0]));
  const std::int64_t wrong = 1 + first_where(context.threads, desc.nodes, [&](std::int64_t n) {
                               return offsets[n + 1] < offsets[n] || offsets[n + 1] > desc.edges;
                             });
  if (wrong <= desc.nodes)
    refuse("desc.offsets[%lld] is %lld; it must be %lld to %lld", lld(wrong), lld(offsets[wrong]),
           lld(offsets[wrong - 1]), lld(desc.edges));
  if (offsets[desc.nodes] != desc.edges)
    refuse("desc.offsets[%lld] is %lld; the last must be desc.edges, %lld", lld(desc.nodes),
           lld(offsets[desc.nodes]), lld(desc.edges));
}

/// The edges of a checked descriptor, in the caller's order.
template <class Index>
Array<Edge<Index>> read(const heed_context& context, const heed_graph_desc& desc) {
  Array<Edge<Index>> edges(context.allocator, desc.edges);
  with_index_type(desc, [&](auto zero) {
    using Given = decltype(zero);
    const auto* const sources = static_cast<const Given*>(desc.sources);
    const auto* const destinations = static_cast<const Given*>(desc.destinations);
    const auto* const offsets = static_cast<const Given*>(desc.offsets);
    each_range(context.threads, Ranges::of(context.threads, desc.edges),
               [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                 std::int64_t row = 0;
                 if (offsets != nullptr)
                   row = std::upper_bound(offsets, offsets + desc.nodes + 1, begin) - offsets - 1;
                 for (std::int64_t e = begin; e < end; ++e) {
                   while (offsets != nullptr && offsets[row + 1] <= e) ++row;
                   const std::int64_t to = offsets != nullptr ? row : destinations[e];
                   edges[e] = {static_cast<std::uint32_t>(sources[e]),
                               static_cast<std::uint32_t>(to), static_cast<Index>(e)};
                 }
               });
  });
  return edges;
}

/// The edges of a graph as they are sorted by destination, each with its ends swapped.
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

// ---- Sorting ----------------------------------------------------------------------------------

/// Digits have up to 2^11 values: the first two levels of cache hold as many places to write to.
constexpr int kMostBits = 11;

/// How many bits numbers below `count` have.
int bits_below(std::int64_t count) {
  int bits = 0;
  while ((std::int64_t{1} << bits) < count) ++bits;
  return bits;
}

/// Some of the bits of one of an edge's two ends.
template <class Index>
struct Digit {
  std::uint32_t Edge<Index>::*end;
  int shift;
  int bits;

  std::int64_t values() const { return std::int64_t{1} << bits; }
  std::int64_t of(const Edge<Index>& edge) const { return (edge.*end >> shift) & (values() - 1); }
};

/// Moves edges to where their digit belongs, keeping the order of equal ones.
template <class Index>
void sort_by_digit(const heed_context& context, const Digit<Index>& digit,
                   const Array<Edge<Index>>& from, Array<Edge<Index>>& to) {
  const Ranges ranges = Ranges::of(context.threads, static_cast<std::int64_t>(from.size()));
  const std::int64_t values = digit.values();
  Array<std::int64_t> next(context.allocator, ranges.ranges * values);  // [range][value]
  each_range(context.threads, ranges, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    std::int64_t* const counts = next.data() + r * values;
    std::fill_n(counts, values, 0);
    for (std::int64_t e = begin; e < end; ++e) ++counts[digit.of(from[e])];
  });
  std::int64_t before = 0;
  for (std::int64_t v = 0; v < values; ++v)
    for (std::int64_t r = 0; r < ranges.ranges; ++r)
      before += std::exchange(next[r * values + v], before);
  each_range(context.threads, ranges, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    std::int64_t* const places = next.data() + r * values;
    for (std::int64_t e = begin; e < end; ++e) to[places[digit.of(from[e])]++] = from[e];
  });
}

template <class Index>
bool sorted(const heed_context& context, const Array<Edge<Index>>& edges) {
  const auto pairs = static_cast<std::int64_t>(edges.size()) - 1;
  const auto key = [&](std::int64_t e) { return std::pair(edges[e].destination, edges[e].source); };
  return pairs <= 0 || first_where(context.threads, pairs,
                                   [&](std::int64_t e) { return key(e + 1) < key(e); }) == pairs;
}

/// Sorts by destination, then source, then place: least significant digit first, in parallel. The
/// sort is stable, so the result does not depend on the threads. Nodes are below `nodes`.
template <class Index>
void sort(const heed_context& context, std::int64_t nodes, Array<Edge<Index>>& edges) {
  if (sorted(context, edges)) return;
  const int bits = std::max(bits_below(nodes), 1);
  const int digits = (bits + kMostBits - 1) / kMostBits;
  const int width = (bits + digits - 1) / digits;
  Array<Edge<Index>> other(context.allocator, static_cast<std::int64_t>(edges.size()));
  for (const auto end : {&Edge<Index>::source, &Edge<Index>::destination}) {
    for (int d = 0; d < digits; ++d) {
      sort_by_digit(context, Digit<Index>{end, d * width, width}, edges, other);
      std::swap(edges, other);
    }
  }
}

// ---- Writing ----------------------------------------------------------------------------------

/// Writes sorted edges into an order of the graph's; duplicates that are removed come at the end.
template <class Index>
class Writer {
 public:
  Writer(const heed_context& context, EdgeOrder& order, const Array<Edge<Index>>& edges,
         bool remove)
      : context_(context),
        order_(order),
        edges_(edges),
        remove_(remove),
        ranges_(Ranges::of(context.threads, size())),
        kept_(context.allocator, ranges_.ranges + 1) {}

  /// Returns how many edges stay; `given` is where the caller's order goes, if it is another.
  std::int64_t write(std::int64_t nodes, Array<Index>& given) {
    each_range(context_.threads, ranges_,
               [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                 kept_[r + 1] = 0;
                 for (std::int64_t e = begin; e < end; ++e) kept_[r + 1] += stays(e) ? 1 : 0;
               });
    kept_[0] = 0;
    for (std::int64_t r = 0; r < ranges_.ranges; ++r) kept_[r + 1] += kept_[r];
    const std::int64_t stay = kept_[ranges_.ranges];
    order_.offsets = Array<std::int64_t>(context_.allocator, nodes + 1);
    order_.others = Array<std::int32_t>(context_.allocator, stay + kSourcesAhead);
    if (stay < size() || !in_place()) given = Array<Index>(context_.allocator, size());
    each_range(context_.threads, ranges_,
               [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
                 write_range(begin, end, kept_[r], stay + begin - kept_[r], given);
               });
    std::fill_n(order_.others.data() + stay, kSourcesAhead, 0);
    const std::int64_t after = size() > 0 ? edges_[size() - 1].destination + 1 : 0;
    std::fill(order_.offsets.data() + after, order_.offsets.end(), stay);
    return stay;
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(edges_.size()); }

  bool stays(std::int64_t e) const {
    return !remove_ || e == 0 || edges_[e].source != edges_[e - 1].source ||
           edges_[e].destination != edges_[e - 1].destination;
  }

  /// Whether the caller's order is the sorted one.
  bool in_place() const {
    return first_where(context_.threads, size(), [&](std::int64_t e) {
             return static_cast<std::int64_t>(edges_[e].given) != e;
           }) == size();
  }

  /// `kept` edges before `begin` stay; edges that do not are written from `removed` on.
  void write_range(std::int64_t begin, std::int64_t end, std::int64_t kept, std::int64_t removed,
                   Array<Index>& given) {
    for (std::int64_t e = begin; e < end; ++e) {
      const Edge<Index>& edge = edges_[e];
      const bool stay = stays(e);
      if (given.size() > 0) given[stay ? kept : removed] = edge.given;
      removed += stay ? 0 : 1;
      if (!stay) continue;
      const std::int64_t last = e == 0 ? -1 : std::int64_t{edges_[e - 1].destination};
      std::fill(order_.offsets.data() + last + 1, order_.offsets.data() + edge.destination + 1,
                kept);
      order_.others[kept++] = static_cast<std::int32_t>(edge.source);
    }
  }

  const heed_context& context_;
  EdgeOrder& order_;
  const Array<Edge<Index>>& edges_;
  const bool remove_;
  const Ranges ranges_;
  Array<std::int64_t> kept_;  ///< [ranges + 1] edges kept before each range
};

/// Sorts edges by destination and source, and writes them into an order of `nodes` nodes that leads
/// to no more than `others`.
template <class Index>
std::int64_t write_sorted(const heed_context& context, std::int64_t nodes, std::int64_t others,
                          Array<Edge<Index>> edges, bool remove, EdgeOrder& order) {
  sort(context, std::max(nodes, others), edges);
  Writer<Index> writer(context, order, edges, remove);
  if constexpr (sizeof(Index) == sizeof(std::uint32_t)) {
    return writer.write(nodes, order.given32);
  } else {
    return writer.write(nodes, order.given64);
  }
}

/// Calls function(Index{}) with the narrowest type that numbers so many edges.
template <class Function>
void with_edge_number(std::int64_t edges, Function&& function) {
  if (edges <= UINT32_MAX) return function(std::uint32_t{});
  function(std::int64_t{});
}

}  // namespace

void check_edges(const heed_context& context, const heed_graph_desc& desc) {
  with_index_type(desc, [&](auto zero) {
    using Index = decltype(zero);
    if (desc.offsets != nullptr)
      check_offsets(context, static_cast<const Index*>(desc.offsets), desc);
    check_nodes(context, "sources", static_cast<const Index*>(desc.sources),
                desc.source_nodes > 0 ? desc.source_nodes : desc.nodes, desc);
    if (desc.destinations != nullptr)
      check_nodes(context, "destinations", static_cast<const Index*>(desc.destinations), desc.nodes,
                  desc);
  });
}

void sort_edges(heed_graph& graph, const heed_graph_desc& desc) {
  const bool listed = desc.offsets == nullptr;
  const bool remove = desc.duplicates == HEED_DUPLICATES_REMOVE ||
                      (desc.duplicates == HEED_DUPLICATES_DEFAULT && listed);
  with_edge_number(desc.edges, [&](auto zero) {
    graph.edges = write_sorted(*graph.context, graph.nodes, graph.sources(),
                               read<decltype(zero)>(*graph.context, desc), remove, graph);
  });
}

void sort_outgoing(heed_graph& graph) {
  with_edge_number(graph.edges_given, [&](auto zero) {
    write_sorted(*graph.context, graph.nodes, graph.nodes, swapped<decltype(zero)>(graph), false,
                 graph.outgoing);
  });
}

}  // namespace heed
