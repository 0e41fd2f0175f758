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

/// How many bits an index below `count` has.
int bits_below(std::int64_t count) {
  int bits = 0;
  while ((std::int64_t{1} << bits) < count) ++bits;
  return bits;
}

/// Moves edges to where their digit, below `values`, belongs, keeping the order of equal ones.
template <class Index, class DigitOf>
void sort_by_digit(const heed_context& context, std::int64_t values, const DigitOf& digit_of,
                   const Array<Edge<Index>>& from, Array<Edge<Index>>& to) {
  const Ranges ranges = Ranges::of(context.threads, static_cast<std::int64_t>(from.size()));
  Array<std::int64_t> next(context.allocator, ranges.ranges * values);  // [range][value]
  each_range(context.threads, ranges, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    std::int64_t* const counts = next.data() + r * values;
    const DigitOf digit = digit_of;  // here, so that stores do not make it be read again
    std::fill_n(counts, values, 0);
    for (std::int64_t e = begin; e < end; ++e) ++counts[digit(from[e])];
  });
  std::int64_t before = 0;
  for (std::int64_t v = 0; v < values; ++v)
    for (std::int64_t r = 0; r < ranges.ranges; ++r)
      before += std::exchange(next[r * values + v], before);
  each_range(context.threads, ranges, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    std::int64_t* const places = next.data() + r * values;
    const DigitOf digit = digit_of;
    for (std::int64_t e = begin; e < end; ++e) to[places[digit(from[e])]++] = from[e];
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
  const std::int64_t values = std::int64_t{1} << width;
  for (const auto end : {&Edge<Index>::source, &Edge<Index>::destination}) {
    for (int shift = 0; shift < digits * width; shift += width) {
      const auto digit_of = [end, shift, values](const Edge<Index>& edge) {
        return (edge.*end >> shift) & (values - 1);
      };
      sort_by_digit(context, values, digit_of, edges, other);
      std::swap(edges, other);
    }
  }
}

// ---- Writing ----------------------------------------------------------------------------------

/// Writes sorted edges into an order of `nodes` nodes; duplicates that are removed come at the end
/// of the caller's order, `given`, which is left empty where it is the sorted one. Returns how many
/// edges stay.
template <class Index>
std::int64_t write_sorted(const heed_context& context, const Array<Edge<Index>>& sorted,
                          std::int64_t nodes, bool remove, EdgeOrder& order, Array<Index>& given) {
  const Edge<Index>* const edges = sorted.data();
  const auto size = static_cast<std::int64_t>(sorted.size());
  const auto stays = [edges, remove](std::int64_t e) {
    return !remove || e == 0 || edges[e].source != edges[e - 1].source ||
           edges[e].destination != edges[e - 1].destination;
  };
  const auto is_moved = [&](std::int64_t e) {
    return static_cast<std::int64_t>(edges[e].given) != e;
  };
  const Ranges ranges = Ranges::of(context.threads, size);
  Array<std::int64_t> kept(context.allocator, ranges.ranges + 1);  // edges before each range
  each_range(context.threads, ranges, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    kept[r + 1] = 0;
    for (std::int64_t e = begin; e < end; ++e) kept[r + 1] += stays(e) ? 1 : 0;
  });
  kept[0] = 0;
  for (std::int64_t r = 0; r < ranges.ranges; ++r) kept[r + 1] += kept[r];
  const std::int64_t stay = kept[ranges.ranges];
  order.offsets = Array<std::int64_t>(context.allocator, nodes + 1);
  order.others = Array<std::int32_t>(context.allocator, stay + kSourcesAhead);
  if (stay < size || first_where(context.threads, size, is_moved) < size)
    given = Array<Index>(context.allocator, size);
  each_range(context.threads, ranges, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    std::int64_t to = kept[r];
    std::int64_t removed = stay + begin - to;
    for (std::int64_t e = begin; e < end; ++e) {
      const bool keep = stays(e);
      if (given.size() > 0) given[keep ? to : removed] = edges[e].given;
      removed += keep ? 0 : 1;
      if (!keep) continue;
      const std::int64_t last = e == 0 ? -1 : std::int64_t{edges[e - 1].destination};
      std::fill(order.offsets.data() + last + 1, order.offsets.data() + edges[e].destination + 1,
                to);
      order.others[to++] = static_cast<std::int32_t>(edges[e].source);
    }
  });
  std::fill_n(order.others.data() + stay, kSourcesAhead, 0);
  const std::int64_t after = size > 0 ? edges[size - 1].destination + 1 : 0;
  std::fill(order.offsets.data() + after, order.offsets.end(), stay);
  return stay;
}

/// Sorts edges by destination and source, and writes them into an order of `nodes` nodes that leads
/// to no more than `others`.
template <class Index>
std::int64_t sort_into(const heed_context& context, std::int64_t nodes, std::int64_t others,
                       Array<Edge<Index>> edges, bool remove, EdgeOrder& order) {
  sort(context, std::max(nodes, others), edges);
  if constexpr (sizeof(Index) == sizeof(std::uint32_t)) {
    return write_sorted(context, edges, nodes, remove, order, order.given32);
  } else {
    return write_sorted(context, edges, nodes, remove, order, order.given64);
  }
}

/// Calls function(Index{}) with the narrowest type that can count so many edges.
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
    graph.edges = sort_into(*graph.context, graph.nodes, graph.sources(),
                            read<decltype(zero)>(*graph.context, desc), remove, graph);
  });
}

void sort_outgoing(heed_graph& graph) {
  with_edge_number(graph.edges_given, [&](auto zero) {
    sort_into(*graph.context, graph.nodes, graph.nodes, swapped<decltype(zero)>(graph), false,
              graph.outgoing);
  });
}

}  // namespace heed
