// Reads a caller's arrays: every entry is checked before any is used.
#include <algorithm>

#include "engine/graph/edges.hpp"
#include "engine/parallel/ranges.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

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
  const auto value = static_cast<long long>(indices[wrong]);
  if (nodes == 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s[%lld] is %lld; desc.nodes is 0", field,
         static_cast<long long>(wrong), value);
  fail(HEED_STATUS_INVALID_ARGUMENT, "desc.%s[%lld] is %lld; it must be 0 to %lld", field,
       static_cast<long long>(wrong), value, static_cast<long long>(nodes - 1));
}

template <class Index>
void check_offsets(const heed_context& context, const Index* offsets, const heed_graph_desc& desc) {
  if (offsets[0] != 0)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.offsets[0] is %lld; it must be 0",
         static_cast<long long>(offsets[0]));
  const std::int64_t wrong = 1 + first_where(context.threads, desc.nodes, [&](std::int64_t n) {
                               return offsets[n + 1] < offsets[n] || offsets[n + 1] > desc.edges;
                             });
  if (wrong <= desc.nodes)
    fail(HEED_STATUS_INVALID_ARGUMENT, "desc.offsets[%lld] is %lld; it must be %lld to %lld",
         static_cast<long long>(wrong), static_cast<long long>(offsets[wrong]),
         static_cast<long long>(offsets[wrong - 1]), static_cast<long long>(desc.edges));
  if (offsets[desc.nodes] != desc.edges)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.offsets[%lld] is %lld; the last must be desc.edges, %lld",
         static_cast<long long>(desc.nodes), static_cast<long long>(offsets[desc.nodes]),
         static_cast<long long>(desc.edges));
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

template <class Index>
Array<Edge<Index>> read_edges(const heed_context& context, const heed_graph_desc& desc) {
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

template Array<Edge<std::uint32_t>> read_edges(const heed_context&, const heed_graph_desc&);
template Array<Edge<std::int64_t>> read_edges(const heed_context&, const heed_graph_desc&);

}  // namespace heed
