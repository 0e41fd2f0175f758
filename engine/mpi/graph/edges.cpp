#include "engine/mpi/graph/edges.hpp"

namespace heed::mpi {
namespace {

template <class Index>
std::int32_t checked(const char* field, const Index* indices, std::int64_t e, std::int64_t nodes) {
  const auto value = static_cast<long long>(indices[e]);
  if (value < 0 || value >= nodes)
    fail(HEED_STATUS_INVALID_ARGUMENT,
         "desc.%s[%lld] is %lld; it must be at least 0 and below desc.nodes, %lld", field,
         static_cast<long long>(e), value, static_cast<long long>(nodes));
  return static_cast<std::int32_t>(value);
}

template <class Index>
std::vector<Edge> read(const heed_mpi_graph_desc& desc, std::int64_t before) {
  const auto* const sources = static_cast<const Index*>(desc.sources);
  const auto* const destinations = static_cast<const Index*>(desc.destinations);
  std::vector<Edge> edges;
  edges.reserve(static_cast<std::size_t>(desc.edges));
  for (std::int64_t e = 0; e < desc.edges; ++e)
    edges.push_back({checked("sources", sources, e, desc.nodes),
                     checked("destinations", destinations, e, desc.nodes), before + e});
  return edges;
}

}  // namespace

std::int64_t count_before(const Communicator& comm, std::int64_t own) {
  std::int64_t before = 0;
  check(MPI_Exscan(&own, &before, 1, MPI_INT64_T, MPI_SUM, comm.get()), "MPI_Exscan");
  return comm.rank() == 0 ? 0 : before;
}

std::vector<Edge> read_edges(const Communicator& comm, const heed_mpi_graph_desc& desc) {
  const std::int64_t before = count_before(comm, desc.edges);
  std::vector<Edge> edges;
  comm.agreed([&] {
    edges = desc.index_type == HEED_INDEX_I64 ? read<std::int64_t>(desc, before)
                                              : read<std::int32_t>(desc, before);
  });
  return edges;
}

}  // namespace heed::mpi
