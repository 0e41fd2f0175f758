// Problems over graphs, split over the ranks of MPI_COMM_WORLD: every rank makes the whole problem
// and takes its rows of it, as in tests/mpi/ranks.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/mpi/ranks.hpp"

namespace heed_test {

using MpiGraph = Owned<heed_mpi_graph>;

/// The rank of every node; none: ranges of nodes.
using OwnerList = std::vector<std::int32_t>;
OwnerList dealt_owners(Index nodes, std::uint64_t seed);
/// Every other rank has nothing.
OwnerList few_owners(Index nodes);

/// The edges that this rank brings: about as many as any other, one rank's after another's.
struct EdgeShare {
  EdgeShare(const EdgeList& whole, const OwnerList& owners);

  heed_mpi_graph_desc desc = HEED_MPI_GRAPH_DESC_INIT;
  std::vector<std::int64_t> sources, destinations;
};

MpiGraph make_mpi_graph(const Context& context, const EdgeList& edges, const OwnerList& owners);

/// Which rows of the whole this rank has.
struct OwnRows {
  explicit OwnRows(const MpiGraph& graph);

  std::vector<std::int64_t> nodes, sources, destinations, edges;
};

/// This rank's part of a problem. Tensors lie otherwise on every rank.
GraphProblem shard_of(const GraphProblem& whole, const OwnRows& own);

/// Runs a problem split so: every rank's rows must have the bits of the whole in one process.
void check_split(GraphProblem& whole, const OwnerList& owners);

}  // namespace heed_test
