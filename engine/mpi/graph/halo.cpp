#include "engine/mpi/graph/halo.hpp"

#include <climits>
#include <cstring>
#include <utility>

namespace heed::mpi {
namespace {

constexpr int kTag = 0;

}  // namespace

Halo::Halo(const RankGraph& graph, std::size_t bytes, std::size_t stride)
    : comm_(graph.comm.get()), bytes_(bytes), stride_(stride) {
  if (stride > INT_MAX)
    fail(HEED_STATUS_UNSUPPORTED,
         "keys and values of a node would have %zu bytes; over ranks they may have %d at most",
         bytes, INT_MAX);
  messages_.reserve(graph.receives.size() + graph.sends.size());
  check(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &packed_row_),
        "MPI_Type_contiguous");
  check(MPI_Type_create_resized(packed_row_, 0, static_cast<MPI_Aint>(stride), &row_),
        "MPI_Type_create_resized");
  check(MPI_Type_commit(&packed_row_), "MPI_Type_commit");
  check(MPI_Type_commit(&row_), "MPI_Type_commit");
  const auto add = [&](const Neighbour& n, bool sent) {
    const std::size_t count = n.rows.size();
    // Rows ascend.
    const auto span = static_cast<std::size_t>(n.rows.back() - n.rows.front()) + 1;
    const bool packed = span != count;
    const std::size_t first = packed ? static_cast<std::size_t>(packed_rows_) * bytes
                                     : static_cast<std::size_t>(n.rows.front()) * stride;
    messages_.push_back({&n, sent, packed, first});
    if (packed) packed_rows_ += static_cast<std::int64_t>(count);
    if (sent) sent_bytes_ += static_cast<double>(count) * static_cast<double>(bytes);
  };
  for (const Neighbour& n : graph.receives) add(n, false);
  for (const Neighbour& n : graph.sends) add(n, true);
}

Halo::~Halo() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended != 0) return;
  for (MPI_Datatype* type : {&packed_row_, &row_})
    if (*type != MPI_DATATYPE_NULL) MPI_Type_free(type);
}

void Halo::swap(Halo& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(bytes_, other.bytes_);
  std::swap(stride_, other.stride_);
  std::swap(packed_row_, other.packed_row_);
  std::swap(row_, other.row_);
  messages_.swap(other.messages_);
  std::swap(packed_rows_, other.packed_rows_);
  std::swap(sent_bytes_, other.sent_bytes_);
}

template <class Function>
void Halo::each_packed(bool sent, Function&& function) const {
  for (const Message& m : messages_) {
    if (!m.packed || m.sent != sent) continue;
    std::size_t packed = m.first;
    for (const int row : m.with->rows) {
      function(static_cast<std::size_t>(row) * stride_, packed);
      packed += bytes_;
    }
  }
}

void Halo::pack(const std::byte* rows, std::byte* packed) const {
  each_packed(
      true, [&](std::size_t row, std::size_t to) { std::memcpy(packed + to, rows + row, bytes_); });
}

void Halo::unpack(const std::byte* packed, std::byte* rows) const {
  each_packed(false, [&](std::size_t row, std::size_t from) {
    std::memcpy(rows + row, packed + from, bytes_);
  });
}

void Halo::begin(std::byte* rows, std::byte* packed, MPI_Request* requests) const {
  for (const Message& m : messages_) {
    MPI_Request& request = *requests++;
    std::byte* const first = (m.packed ? packed : rows) + m.first;
    const MPI_Datatype type = m.packed ? packed_row_ : row_;
    const auto count = static_cast<int>(m.with->rows.size());
    if (m.sent)
      check(MPI_Isend(first, count, type, m.with->rank, kTag, comm_, &request), "MPI_Isend");
    else
      check(MPI_Irecv(first, count, type, m.with->rank, kTag, comm_, &request), "MPI_Irecv");
  }
}

}  // namespace heed::mpi
