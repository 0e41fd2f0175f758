#include <numeric>

#include "engine/mpi/graph/edges.hpp"

namespace heed::mpi {
namespace {

/// A node counts as much as this many edges: its rows of queries, keys, values and results are
/// moved and written, where an edge reads two.
constexpr std::int64_t kEdgesOfNode = 4;

/// The least nodes before which lies at least rank / ranks of the work of all nodes and the edges
/// into them, for every rank: all are searched at once, by halves.
std::vector<std::int64_t> balance(const Communicator& comm, std::int64_t nodes,
                                  const std::vector<Edge>& edges) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::int32_t> ends;
  std::vector<std::int64_t> low, high, before, sum;
  comm.agreed([&] {
    for (const Edge& edge : edges) ends.push_back(edge.destination);
    std::sort(ends.begin(), ends.end());
    low.assign(ranks + 1, 0);
    high.assign(ranks + 1, nodes);
    before.resize(ranks + 1);
    sum.resize(ranks + 1);
  });
  const auto middle = [&](std::size_t r) { return low[r] + (high[r] - low[r]) / 2; };
  const auto count = [&](const auto& nodes_before) {
    for (std::size_t r = 0; r <= ranks; ++r)
      before[r] = std::lower_bound(ends.begin(), ends.end(), nodes_before(r)) - ends.begin();
    check(MPI_Allreduce(before.data(), sum.data(), static_cast<int>(ranks) + 1, MPI_INT64_T,
                        MPI_SUM, comm.get()),
          "MPI_Allreduce");
    for (std::size_t r = 0; r <= ranks; ++r) sum[r] += kEdgesOfNode * nodes_before(r);
  };
  count([&](std::size_t) { return nodes; });
  const double share = static_cast<double>(sum[0]) / static_cast<double>(ranks);
  while (low != high) {
    count(middle);
    for (std::size_t r = 0; r <= ranks; ++r) {
      const std::int64_t at = middle(r);
      if (low[r] == high[r]) continue;
      if (static_cast<double>(sum[r]) >= share * static_cast<double>(r))
        high[r] = at;
      else
        low[r] = at + 1;
    }
  }
  low[ranks] = nodes;
  return low;
}

}  // namespace

std::vector<std::int32_t> Owners::nodes_of(int rank, std::int64_t nodes) const {
  std::vector<std::int32_t> own;
  if (given_ == nullptr) {
    const auto r = static_cast<std::size_t>(rank);
    own.resize(static_cast<std::size_t>(first_[r + 1] - first_[r]));
    std::iota(own.begin(), own.end(), static_cast<std::int32_t>(first_[r]));
  }
  for (std::int64_t n = 0; given_ != nullptr && n < nodes; ++n)
    if (given_[n] == rank) own.push_back(static_cast<std::int32_t>(n));
  return own;
}

Owners make_owners(const Communicator& comm, const heed_mpi_graph_desc& desc,
                   const std::vector<Edge>& edges) {
  if (desc.owners == nullptr) return Owners(balance(comm, desc.nodes, edges));
  compare(comm, "owners", desc.owners, desc.nodes);
  return Owners(desc.owners);
}

}  // namespace heed::mpi
