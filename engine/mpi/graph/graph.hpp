// One rank's share of a graph that is split over ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "api/heed_mpi.h"
#include "engine/mpi/communicator.hpp"
#include "engine/mpi/tensor.hpp"

namespace heed::mpi {

/// Nodes are counted below 2^31, as in heed_graph_desc.
inline constexpr std::int64_t kMostNodes = INT32_MAX;

struct Edge {
  std::int32_t source, destination;
  std::int64_t given;  ///< its place among the edges of all ranks
};

/// Reads the descriptor's arrays, or the file at desc.path. Where desc.nodes is 0 it becomes as
/// many as the file needs. Collective. Throws the same Error on all ranks.
std::vector<Edge> read_edges(const Communicator& comm, heed_mpi_graph_desc& desc);

/// Tells which rank has which node.
struct Owners {
  const std::int32_t* given;        ///< the caller's array, by node; NULL: ranks have ranges
  std::vector<std::int64_t> first;  ///< rank r has the nodes first[r] to first[r + 1] - 1

  int of(std::int32_t node) const {
    if (given != nullptr) return given[node];
    return static_cast<int>(std::upper_bound(first.begin(), first.end(), node) - first.begin()) - 1;
  }
  /// The nodes of a rank, ascending.
  std::vector<std::int32_t> nodes_of(int rank, std::int64_t nodes) const;
};

/// Takes the caller's owners, which must be the same on all ranks, or gives ranks ranges of nodes.
/// Collective. Throws the same Error on all ranks.
Owners make_owners(const Communicator& comm, const heed_mpi_graph_desc& desc,
                   const std::vector<Edge>& edges);

/// Local rows of this rank that another needs, or the other way round.
struct Neighbour {
  int rank;
  std::vector<int> rows;
};

/// The edges into some own nodes, which one call computes with. Sources are local rows; they are
/// own nodes where no rank needs another's rows.
struct Share {
  std::vector<std::int32_t> nodes;  ///< indices into own_rows
  std::int64_t first_edge = 0;
  std::int64_t edges = 0;   ///< so many from first_edge on
  Owned<heed_graph> graph;  ///< NULL: there are no nodes
  /// The graph has all own nodes, also such as have no edges here; else it has `nodes` alone, in
  /// their order.
  bool in_place = true;
};

/// Local rows are the nodes that a rank knows, its own and the sources of its edges, in order
/// of their indices in the whole graph. So every node has its edges in the order of the whole
/// graph, and its results have the same bits.
///
/// A node is inner if its edges lead from the rank's own nodes alone.
struct RankGraph {
  /// Collective. Throws the same Error on all ranks.
  RankGraph(MPI_Comm parent, const heed_context* context, const heed_mpi_graph_desc* desc);

  Communicator comm;
  bool alone = false;  ///< no rank needs another's rows
  std::int64_t nodes = 0, all_edges = 0;
  std::vector<std::int32_t> known;     ///< the nodes of local rows, ascending
  std::vector<std::int32_t> own_rows;  ///< local rows of own nodes
  /// Edges between local rows: first into inner nodes and then into others, in the order that they
  /// were given in. `places` says where they stand among the edges of all ranks.
  std::vector<std::int32_t> sources, destinations;
  std::vector<std::int64_t> places;
  std::vector<Neighbour> receives, sends;
  /// Inner nodes, and the others. Where inner nodes have few edges they count among the others. The
  /// share with more nodes is in place.
  Share inner, border;

  std::int64_t rows() const { return static_cast<std::int64_t>(known.size()); }
  std::int64_t own_nodes() const { return static_cast<std::int64_t>(own_rows.size()); }
  std::int64_t given() const { return static_cast<std::int64_t>(places.size()); }
  heed_mpi_graph_info describe() const;

 private:
  /// Finds the local rows, and returns the nodes that this rank needs of each other rank.
  ByRank<std::int32_t> find_rows(const Owners& owners, std::vector<Edge>& edges);
  void sort_edges(const std::vector<Edge>& edges);
  void make_graph_of(Share& share, std::int64_t end, const heed_context& context,
                     std::uint32_t duplicates) const;
};

}  // namespace heed::mpi

/// The C API's opaque type. Plans share the graph of their rank.
struct heed_mpi_graph {
  std::shared_ptr<const heed::mpi::RankGraph> ranks;
};
