#include "engine/mpi/graph/halo.hpp"

#include <algorithm>
#include <climits>
#include <utility>

namespace heed::mpi {
namespace {

/// MPICH refuses one buffer for what is sent and received, whatever rows are named. So it is told
/// of two, this far apart, and offsets that make them one again.
constexpr MPI_Aint kApart = 64;

void free_all(std::vector<MPI_Datatype>& types) {
  for (MPI_Datatype& type : types)
    if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
}

}  // namespace

Halo::Halo(const RankGraph& graph, std::size_t bytes, std::size_t stride)
    : neighbours_(graph.neighbours) {
  if (stride > INT_MAX)
    fail(HEED_STATUS_UNSUPPORTED,
         "keys and values of a node would have %zu bytes; over ranks they may have %d at most",
         bytes, INT_MAX);
  const std::size_t most = std::max({graph.sends.size(), graph.receives.size(), std::size_t{1}});
  ones_.assign(most, 1);
  send_offsets_.assign(most, 0);
  receive_offsets_.assign(most, -kApart);
  sent_.reserve(most);
  received_.reserve(most);
  MPI_Datatype packed = MPI_DATATYPE_NULL;
  MPI_Datatype row = MPI_DATATYPE_NULL;
  check(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &packed), "MPI_Type_contiguous");
  check(MPI_Type_create_resized(packed, 0, static_cast<MPI_Aint>(stride), &row),
        "MPI_Type_create_resized");
  const auto type_of = [&](const Neighbour& n) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check(MPI_Type_create_indexed_block(static_cast<int>(n.rows.size()), 1, n.rows.data(), row,
                                        &type),
          "MPI_Type_create_indexed_block");
    check(MPI_Type_commit(&type), "MPI_Type_commit");
    return type;
  };
  for (const Neighbour& n : graph.sends) {
    sent_.push_back(type_of(n));
    sent_bytes_ += static_cast<double>(n.rows.size()) * static_cast<double>(bytes);
  }
  for (const Neighbour& n : graph.receives) received_.push_back(type_of(n));
  MPI_Type_free(&row);
  MPI_Type_free(&packed);
}

Halo::~Halo() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended != 0) return;
  free_all(sent_);
  free_all(received_);
}

void Halo::swap(Halo& other) noexcept {
  std::swap(neighbours_, other.neighbours_);
  sent_.swap(other.sent_);
  received_.swap(other.received_);
  ones_.swap(other.ones_);
  send_offsets_.swap(other.send_offsets_);
  receive_offsets_.swap(other.receive_offsets_);
  std::swap(sent_bytes_, other.sent_bytes_);
}

MPI_Request Halo::begin(std::byte* rows) const {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ineighbor_alltoallw(rows, ones_.data(), send_offsets_.data(), sent_.data(),
                                rows + kApart, ones_.data(), receive_offsets_.data(),
                                received_.data(), neighbours_, &request),
        "MPI_Ineighbor_alltoallw");
  return request;
}

}  // namespace heed::mpi
