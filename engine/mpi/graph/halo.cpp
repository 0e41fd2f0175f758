#include "engine/mpi/graph/halo.hpp"

#include <climits>
#include <utility>

namespace heed::mpi {
namespace {

constexpr int kTag = 0;

}  // namespace

Halo::Halo(const RankGraph& graph, std::size_t bytes, std::size_t stride)
    : comm_(graph.comm.get()) {
  if (stride > INT_MAX)
    fail(HEED_STATUS_UNSUPPORTED,
         "keys and values of a node would have %zu bytes; over ranks they may have %d at most",
         bytes, INT_MAX);
  messages_.reserve(graph.receives.size() + graph.sends.size());
  MPI_Datatype packed = MPI_DATATYPE_NULL;
  MPI_Datatype row = MPI_DATATYPE_NULL;
  check(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &packed), "MPI_Type_contiguous");
  check(MPI_Type_create_resized(packed, 0, static_cast<MPI_Aint>(stride), &row),
        "MPI_Type_create_resized");
  const auto add = [&](const Neighbour& n, bool sent) {
    const auto count = static_cast<int>(n.rows.size());
    const auto first = static_cast<std::size_t>(n.rows.front());
    messages_.push_back({n.rank, sent, first * stride, MPI_DATATYPE_NULL});
    MPI_Datatype& type = messages_.back().rows;
    // Rows ascend. One after the other they are a message that MPI can copy in one go.
    if (n.rows.back() - n.rows.front() + 1 == count) {
      check(MPI_Type_contiguous(count, row, &type), "MPI_Type_contiguous");
    } else {
      messages_.back().first = 0;
      check(MPI_Type_create_indexed_block(count, 1, n.rows.data(), row, &type),
            "MPI_Type_create_indexed_block");
    }
    check(MPI_Type_commit(&type), "MPI_Type_commit");
    if (sent) sent_bytes_ += static_cast<double>(n.rows.size()) * static_cast<double>(bytes);
  };
  for (const Neighbour& n : graph.receives) add(n, false);
  for (const Neighbour& n : graph.sends) add(n, true);
  MPI_Type_free(&row);
  MPI_Type_free(&packed);
}

Halo::~Halo() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended != 0) return;
  for (Message& m : messages_)
    if (m.rows != MPI_DATATYPE_NULL) MPI_Type_free(&m.rows);
}

void Halo::swap(Halo& other) noexcept {
  std::swap(comm_, other.comm_);
  messages_.swap(other.messages_);
  std::swap(sent_bytes_, other.sent_bytes_);
}

void Halo::begin(std::byte* rows, MPI_Request* requests) const {
  for (const Message& m : messages_) {
    MPI_Request& request = *requests++;
    if (m.sent)
      check(MPI_Isend(rows + m.first, 1, m.rows, m.rank, kTag, comm_, &request), "MPI_Isend");
    else
      check(MPI_Irecv(rows + m.first, 1, m.rows, m.rank, kTag, comm_, &request), "MPI_Irecv");
  }
}

}  // namespace heed::mpi
