// The rows that travel in every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/mpi/graph/graph.hpp"

namespace heed::mpi {

/// Rows `stride` bytes apart, of which the first `bytes` travel. Rows one after the other go and
/// come where they lie. Others are packed before they go, and unpacked when they have come: half of
/// 500,000 rows of 512 bytes take 45 ms from one process to another, where MPI's type of such rows
/// takes 60 to 170.
///
/// Point to point: of MPICH 4.0.2's neighbourhood collectives (MPI_Ineighbor_alltoallw) a rank that
/// gets rows and sends none gets nothing.
class Halo {
 public:
  Halo() = default;
  /// The graph must outlive it.
  Halo(const RankGraph& graph, std::size_t bytes, std::size_t stride);

  /// That this rank sends in a step.
  double sent_bytes() const { return sent_bytes_; }
  /// How many requests begin() makes.
  std::size_t messages() const { return messages_.size(); }
  /// That are packed, of so many bytes each.
  std::int64_t packed_rows() const { return packed_rows_; }
  std::size_t row_bytes() const { return bytes_; }

  void pack(const std::byte* rows, std::byte* packed) const;
  /// Collective. Own rows and what is packed must stay as they are, and others' are not there,
  /// until all requests end.
  void begin(Requests& requests, std::byte* rows, std::byte* packed) const;
  void unpack(const std::byte* packed, std::byte* rows) const;

 private:
  struct Message {
    const Neighbour* with;
    bool sent;
    bool packed;
    std::size_t first;  ///< byte where it begins, among the rows or what is packed
  };
  /// Calls function(row, packed row) with numbers of bytes, for packed messages of this direction.
  template <class Function>
  void each_packed(bool sent, Function&& function) const;

  std::size_t bytes_ = 0, stride_ = 0;
  RowType packed_row_, row_;
  std::vector<Message> messages_;  ///< those that are received first
  std::int64_t packed_rows_ = 0;
  double sent_bytes_ = 0;
};

}  // namespace heed::mpi
