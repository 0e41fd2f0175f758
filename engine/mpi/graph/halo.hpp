// The rows that travel in every step.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "engine/mpi/graph/graph.hpp"

namespace heed::mpi {

/// Rows `stride` bytes apart, of which the first `bytes` travel. MPI's types say which go to and
/// come from every neighbour: MPI takes them from where they lie, and puts them where they belong.
///
/// Point to point: of MPICH 4.0.2's neighbourhood collectives (MPI_Ineighbor_alltoallw) a rank that
/// gets rows and sends none gets nothing.
class Halo {
 public:
  Halo() = default;
  Halo(const RankGraph& graph, std::size_t bytes, std::size_t stride);
  ~Halo();
  Halo(const Halo&) = delete;
  Halo& operator=(const Halo&) = delete;
  Halo(Halo&& other) noexcept { swap(other); }
  Halo& operator=(Halo&& other) noexcept {
    swap(other);
    return *this;
  }

  /// That this rank sends in a step.
  double sent_bytes() const { return sent_bytes_; }
  /// How many begin() makes.
  std::size_t requests() const { return messages_.size(); }

  /// Collective. Own rows must stay as they are, and others' are not there, until all requests end.
  void begin(std::byte* rows, MPI_Request* requests) const;

 private:
  struct Message {
    int rank;
    bool sent;
    std::size_t first;  ///< byte where the rows begin
    MPI_Datatype rows;
  };
  void swap(Halo& other) noexcept;

  MPI_Comm comm_ = MPI_COMM_NULL;  ///< the graph's
  std::vector<Message> messages_;  ///< those that are received first
  double sent_bytes_ = 0;
};

}  // namespace heed::mpi
