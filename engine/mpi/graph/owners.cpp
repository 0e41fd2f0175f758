#include "engine/mpi/graph/owners.hpp"

#include <numeric>

namespace heed::mpi {
namespace {

void check_range(const Communicator& comm, const heed_mpi_graph_desc& desc) {
  for (std::int64_t n = 0; n < desc.nodes; ++n)
    if (desc.owners[n] < 0 || desc.owners[n] >= comm.size())
      fail(HEED_STATUS_INVALID_ARGUMENT, "desc.owners[%lld] is %d; it must be a rank, 0 to %d",
           static_cast<long long>(n), desc.owners[n], comm.size() - 1);
}

/// So many owners are compared at a time.
constexpr std::int64_t kCompared = 1 << 16;

void compare(const Communicator& comm, const heed_mpi_graph_desc& desc) {
  std::vector<std::int32_t> first;
  comm.agreed([&] {
    check_range(comm, desc);
    first.resize(static_cast<std::size_t>(std::min(kCompared, desc.nodes)));
  });
  std::int64_t wrong = desc.nodes;
  std::int32_t there = 0;
  for (std::int64_t begin = 0; begin < desc.nodes; begin += kCompared) {
    const auto count = static_cast<std::size_t>(std::min(kCompared, desc.nodes - begin));
    const std::int32_t* const own = desc.owners + begin;
    if (comm.rank() == 0) std::copy_n(own, count, first.begin());
    check(MPI_Bcast(first.data(), static_cast<int>(count), MPI_INT32_T, 0, comm.get()),
          "MPI_Bcast");
    const auto differs =
        static_cast<std::size_t>(std::mismatch(own, own + count, first.begin()).first - own);
    if (differs == count || wrong < desc.nodes) continue;
    wrong = begin + static_cast<std::int64_t>(differs);
    there = first[differs];
  }
  comm.agreed([&] {
    if (wrong < desc.nodes)
      fail(HEED_STATUS_INVALID_ARGUMENT,
           "desc.owners[%lld] is %d; on rank 0 it is %d, and must be the same",
           static_cast<long long>(wrong), desc.owners[wrong], there);
  });
}

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
  compare(comm, desc);
  return Owners(desc.owners);
}

}  // namespace heed::mpi
