// The edges that ranks bring, in memory or in a file.
#pragma once

#include <cstdint>
#include <vector>

#include "api/heed_mpi.h"
#include "engine/mpi/communicator.hpp"

namespace heed::mpi {

/// Nodes have numbers below 2^31, as in heed_graph_desc.
inline constexpr std::int64_t kMostNodes = INT32_MAX;

struct Edge {
  std::int32_t source, destination;
  std::int64_t given;  ///< its place among those of all ranks
};

/// Of the descriptor's arrays. Collective. Throws the same Error on all ranks, as the next does.
std::vector<Edge> read_edges(const Communicator& comm, const heed_mpi_graph_desc& desc);

/// Of the file at desc.path. Where desc.nodes is 0 it becomes what the file needs.
std::vector<Edge> read_file(const Communicator& comm, heed_mpi_graph_desc& desc);

/// How many of something the ranks before this one have. Collective.
std::int64_t count_before(const Communicator& comm, std::int64_t own);

}  // namespace heed::mpi
