// The rows that travel in every step.
#include <climits>
#include <cstring>

#include "engine/mpi/graph/plan.hpp"

namespace heed::mpi {

Halo::Halo(const RankGraph& graph, std::size_t bytes, std::size_t stride)
    : bytes_(bytes), stride_(stride) {
  if (stride > INT_MAX)
    fail(HEED_STATUS_UNSUPPORTED,
         "keys and values of a node would have %zu bytes; over ranks they may have %d at most",
         bytes, INT_MAX);
  messages_.reserve(graph.receives.size() + graph.sends.size());
  packed_row_ = RowType(bytes, bytes);
  row_ = RowType(bytes, stride);
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

void Halo::begin(Requests& requests, std::byte* rows, std::byte* packed) const {
  constexpr int kTag = 0;
  for (const Message& m : messages_) {
    std::byte* const first = (m.packed ? packed : rows) + m.first;
    const MPI_Datatype type = (m.packed ? packed_row_ : row_).get();
    if (m.sent)
      requests.send(first, m.with->rows.size(), type, m.with->rank, kTag);
    else
      requests.receive(first, m.with->rows.size(), type, m.with->rank, kTag);
  }
}

}  // namespace heed::mpi
