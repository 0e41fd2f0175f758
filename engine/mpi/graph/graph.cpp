#include "engine/mpi/graph/graph.hpp"

#include <algorithm>
#include <iterator>

#include "engine/runtime/structs.hpp"

namespace heed::mpi {
namespace {

using Nodes = std::vector<std::int32_t>;

std::int32_t place_in(const Nodes& sorted, std::int32_t node) {
  return static_cast<std::int32_t>(std::lower_bound(sorted.begin(), sorted.end(), node) -
                                   sorted.begin());
}

/// Sorts items by the rank that they are for; items for one rank keep their order.
template <class T, class RankOf>
ByRank<T> by_rank(int ranks, const std::vector<T>& items, RankOf&& rank_of) {
  ByRank<T> lists(static_cast<std::size_t>(ranks));
  for (const T& item : items) lists[static_cast<std::size_t>(rank_of(item))].push_back(item);
  return lists;
}

void check_arrays(const heed_mpi_graph_desc& d) {
  if (d.path != nullptr) {
    if (d.edges != 0 || d.sources != nullptr || d.destinations != nullptr)
      refuse(
          "desc.path is given; desc.edges must then be 0, and desc.sources and desc.destinations "
          "NULL");
    return;
  }
  if (d.edges < 0 || d.edges > std::int64_t{1} << 40)
    refuse("desc.edges is %lld; it must be 0 to 2^40", lld(d.edges));
  const std::size_t bytes = d.index_type == HEED_INDEX_I64 ? 8 : 4;
  const auto check_array = [&](const char* name, const void* data) {
    if (d.edges > 0 && data == nullptr)
      refuse("desc.%s is NULL; desc.edges is %lld", name, lld(d.edges));
    if (reinterpret_cast<std::uintptr_t>(data) % bytes != 0)
      refuse("desc.%s is %p; it must be a multiple of %zu", name, data, bytes);
  };
  check_array("sources", d.sources);
  check_array("destinations", d.destinations);
}

heed_mpi_graph_desc read_desc(const Communicator& comm, const heed_context* context,
                              const heed_mpi_graph_desc* given) {
  Communicator::check_thread();
  required(context, "context");
  const heed_mpi_graph_desc d = read_struct(given, "desc");
  check_choice("index_type", d.index_type, "a heed_index_type", HEED_INDEX_I64);
  check_choice("duplicates", d.duplicates, "a heed_duplicates", HEED_DUPLICATES_KEEP);
  check_reserved("desc.reserved", d.reserved);
  if (d.nodes < 0 || d.nodes > kMostNodes)
    refuse("desc.nodes is %lld; it must be 0 to %lld", lld(d.nodes), lld(kMostNodes));
  if (d.path != nullptr && d.nodes == 0 && d.owners != nullptr)
    refuse(
        "desc.owners is given with desc.nodes 0; with both desc.path and desc.owners it must say "
        "how many nodes there are");
  check_arrays(d);
  for (std::int64_t n = 0; d.owners != nullptr && n < d.nodes; ++n)
    if (d.owners[n] < 0 || d.owners[n] >= comm.size())
      refuse("desc.owners[%lld] is %d; it must be a rank, 0 to %d", lld(n), d.owners[n],
             comm.size() - 1);
  return d;
}

heed_graph_info describe_local(const Owned<heed_graph>& graph) {
  heed_graph_info info = HEED_GRAPH_INFO_INIT;
  if (graph != nullptr) check(heed_graph_describe(graph.get(), &info));
  return info;
}

std::vector<Neighbour> neighbours_of(const ByRank<std::int32_t>& lists, const Nodes& known) {
  std::vector<Neighbour> neighbours;
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (lists[rank].empty()) continue;
    neighbours.push_back({static_cast<int>(rank), {}});
    for (const std::int32_t node : lists[rank])
      neighbours.back().rows.push_back(place_in(known, node));
  }
  return neighbours;
}

}  // namespace

RankGraph::RankGraph(MPI_Comm parent, const heed_context* context,
                     const heed_mpi_graph_desc* given_desc)
    : comm(parent) {
  heed_mpi_graph_desc desc = comm.agreed([&] { return read_desc(comm, context, given_desc); });
  compare(comm, [&] {
    return std::vector<Field>{same("nodes", desc.nodes), same("duplicates", desc.duplicates),
                              same("path != NULL", desc.path != nullptr),
                              same("owners != NULL", desc.owners != nullptr)};
  });
  std::vector<Edge> brought = read_edges(comm, desc);
  nodes = desc.nodes;
  const Owners owners = make_owners(comm, desc, brought);
  ByRank<Edge> sent = comm.agreed([&] {
    return by_rank(comm.size(), brought,
                   [&](const Edge& edge) { return owners.of(edge.destination); });
  });
  std::vector<Edge>().swap(brought);
  sent = exchange_lists(comm, sent);
  std::vector<Edge> edges;
  const ByRank<std::int32_t> needed = comm.agreed([&] {
    for (std::vector<Edge>& list : sent) {
      edges.insert(edges.end(), list.begin(), list.end());
      std::vector<Edge>().swap(list);
    }
    return find_rows(owners, edges);
  });
  const ByRank<std::int32_t> wanted = exchange_lists(comm, needed);
  comm.agreed([&] { sends = neighbours_of(wanted, known); });
  alone = comm.reduced(static_cast<std::int64_t>(receives.size()), MPI_SUM) == 0;
  comm.agreed([&] {
    sort_edges(edges);
    std::vector<Edge>().swap(edges);
    inner.in_place = inner.nodes.size() >= border.nodes.size();
    border.in_place = !inner.in_place;
    if (alone || !inner.nodes.empty())
      make_graph_of(inner, border.first_edge, *context, desc.duplicates);
    if (!border.nodes.empty()) make_graph_of(border, given(), *context, desc.duplicates);
  });
  all_edges =
      comm.reduced(describe_local(inner.graph).edges + describe_local(border.graph).edges, MPI_SUM);
}

ByRank<std::int32_t> RankGraph::find_rows(const Owners& owners, std::vector<Edge>& edges) {
  const int rank = comm.rank();
  const auto owner = [&](std::int32_t node) { return owners.of(node); };
  const Nodes own = owners.nodes_of(rank, nodes);
  Nodes others;
  for (const Edge& edge : edges)
    if (owner(edge.source) != rank) others.push_back(edge.source);
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  known.reserve(own.size() + others.size());
  std::merge(own.begin(), own.end(), others.begin(), others.end(), std::back_inserter(known));
  own_rows.reserve(own.size());
  for (const std::int32_t node : own) own_rows.push_back(place_in(known, node));
  for (Edge& edge : edges) {
    edge.source = place_in(known, edge.source);
    edge.destination = place_in(known, edge.destination);
  }
  ByRank<std::int32_t> needed = by_rank(comm.size(), others, owner);
  receives = neighbours_of(needed, known);
  return needed;
}

/// Edges at inner nodes come first: calls over some of the edges find their tensors in one piece.
void RankGraph::sort_edges(const std::vector<Edge>& edges) {
  std::vector<char> remote(known.size(), 1);
  for (const std::int32_t row : own_rows) remote[static_cast<std::size_t>(row)] = 0;
  std::vector<char> all_own(known.size(), 1);  // sources, by destination
  for (const Edge& edge : edges)
    if (remote[static_cast<std::size_t>(edge.source)] != 0)
      all_own[static_cast<std::size_t>(edge.destination)] = 0;
  const auto is_inner = [&](std::int32_t row) {
    return all_own[static_cast<std::size_t>(row)] != 0;
  };
  sources.reserve(edges.size());
  destinations.reserve(edges.size());
  places.reserve(edges.size());
  for (const bool inner_ones : {true, false}) {
    for (const Edge& edge : edges) {
      if (is_inner(edge.destination) != inner_ones) continue;
      sources.push_back(edge.source);
      destinations.push_back(edge.destination);
      places.push_back(edge.given);
    }
    if (inner_ones) border.first_edge = given();
  }
  // With fewer edges than there are rows a call of their own hides less than it costs.
  const bool all_border = border.first_edge < rows() && !alone;
  if (all_border) border.first_edge = 0;
  for (std::size_t i = 0; i < own_rows.size(); ++i)
    (is_inner(own_rows[i]) && !all_border ? inner : border)
        .nodes.push_back(static_cast<std::int32_t>(i));
}

void RankGraph::make_graph_of(Share& share, std::int64_t end, const heed_context& context,
                              std::uint32_t duplicates) const {
  const std::int64_t begin = share.first_edge;
  Nodes place(known.size());  // by local row, in the share's graph
  for (std::size_t i = 0; i < share.nodes.size(); ++i) {
    const std::int32_t own = share.nodes[i];
    place[static_cast<std::size_t>(own_rows[static_cast<std::size_t>(own)])] =
        share.in_place ? own : static_cast<std::int32_t>(i);
  }
  Nodes to(destinations.begin() + begin, destinations.begin() + end);
  for (std::int32_t& destination : to) destination = place[static_cast<std::size_t>(destination)];
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.nodes = share.in_place ? own_nodes() : static_cast<std::int64_t>(share.nodes.size());
  desc.source_nodes = alone ? 0 : rows();
  desc.edges = share.edges = end - begin;
  desc.sources = desc.edges > 0 ? sources.data() + begin : nullptr;
  desc.destinations = desc.edges > 0 ? to.data() : nullptr;
  desc.duplicates = duplicates;
  share.graph = make<heed_graph>(&context, &desc);
}

heed_mpi_graph_info RankGraph::describe() const {
  const heed_graph_info first = describe_local(inner.graph);
  const heed_graph_info second = describe_local(border.graph);
  heed_mpi_graph_info info = HEED_MPI_GRAPH_INFO_INIT;
  info.nodes = nodes;
  info.edges = all_edges;
  info.own_nodes = own_nodes();
  info.own_given = given();
  info.own_edges = first.edges + second.edges;
  info.inner_nodes = static_cast<std::int64_t>(inner.nodes.size());
  info.inner_edges = first.edges;
  info.remote_rows = rows() - own_nodes();
  for (const Neighbour& n : sends) info.sent_rows += static_cast<std::int64_t>(n.rows.size());
  info.senders = static_cast<std::int64_t>(receives.size());
  info.receivers = static_cast<std::int64_t>(sends.size());
  info.bytes = first.bytes + second.bytes + places.size() * sizeof(std::int64_t) +
               (sources.size() + destinations.size() + known.size() + 2 * own_rows.size() +
                static_cast<std::size_t>(info.remote_rows + info.sent_rows)) *
                   sizeof(std::int32_t);
  return info;
}

}  // namespace heed::mpi
