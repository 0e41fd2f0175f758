#include "engine/mpi/graph/lists.hpp"

#include <climits>

namespace heed::mpi {
namespace {

constexpr int kTag = 0;

}  // namespace

std::vector<std::int64_t> exchange_counts(const Communicator& comm,
                                          const std::vector<std::int64_t>& sent) {
  std::vector<std::int64_t> received;
  comm.agreed([&] {
    for (std::size_t i = 0; i < sent.size(); ++i)
      if (sent[i] > INT_MAX)
        fail(HEED_STATUS_UNSUPPORTED,
             "%lld edges or nodes are for rank %zu; a message may have %d at most",
             static_cast<long long>(sent[i]), i, INT_MAX);
    received.resize(sent.size());
  });
  check(MPI_Alltoall(sent.data(), 1, MPI_INT64_T, received.data(), 1, MPI_INT64_T, comm.get()),
        "MPI_Alltoall");
  return received;
}

void exchange_items(const Communicator& comm, const void* sent,
                    const std::vector<std::int64_t>& sent_counts, void* received,
                    const std::vector<std::int64_t>& received_counts, std::size_t each) {
  std::vector<MPI_Request> requests;
  comm.agreed([&] { requests.reserve(2 * sent_counts.size()); });
  MPI_Datatype item = MPI_DATATYPE_NULL;
  check(MPI_Type_contiguous(static_cast<int>(each), MPI_BYTE, &item), "MPI_Type_contiguous");
  check(MPI_Type_commit(&item), "MPI_Type_commit");
  auto* to = static_cast<std::byte*>(received);
  for (std::size_t i = 0; i < received_counts.size(); ++i) {
    const std::int64_t count = received_counts[i];
    if (count > 0)
      check(MPI_Irecv(to, static_cast<int>(count), item, static_cast<int>(i), kTag, comm.get(),
                      &requests.emplace_back()),
            "MPI_Irecv");
    to += static_cast<std::size_t>(count) * each;
  }
  auto* from = static_cast<const std::byte*>(sent);
  for (std::size_t i = 0; i < sent_counts.size(); ++i) {
    const std::int64_t count = sent_counts[i];
    if (count > 0)
      check(MPI_Isend(from, static_cast<int>(count), item, static_cast<int>(i), kTag, comm.get(),
                      &requests.emplace_back()),
            "MPI_Isend");
    from += static_cast<std::size_t>(count) * each;
  }
  check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
        "MPI_Waitall");
  check(MPI_Type_free(&item), "MPI_Type_free");
}

}  // namespace heed::mpi
