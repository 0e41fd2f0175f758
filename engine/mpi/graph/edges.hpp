// The edges that ranks bring, in memory or in a file, and which rank has which node.
#pragma once

#include <algorithm>
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

/// Which rank has which node.
class Owners {
 public:
  /// By the caller's array, which lives as long.
  explicit Owners(const std::int32_t* given) : given_(given) {}
  /// Rank r has the nodes first[r] to first[r + 1] - 1.
  explicit Owners(std::vector<std::int64_t> first) : first_(std::move(first)) {}

  int of(std::int32_t node) const {
    if (given_ != nullptr) return given_[node];
    return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), node) - first_.begin()) -
           1;
  }
  /// A rank's nodes, ascending.
  std::vector<std::int32_t> nodes_of(int rank, std::int64_t nodes) const;

 private:
  const std::int32_t* given_ = nullptr;
  std::vector<std::int64_t> first_;
};

/// The caller's, compared with those of the other ranks, or ranges of nodes. Collective. Throws the
/// same Error on all ranks.
Owners make_owners(const Communicator& comm, const heed_mpi_graph_desc& desc,
                   const std::vector<Edge>& edges);

}  // namespace heed::mpi
