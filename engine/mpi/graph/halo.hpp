// The rows that travel in every step.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "engine/mpi/graph/graph.hpp"

namespace heed::mpi {

/// Rows `stride` bytes apart, of which the first `bytes` travel. MPI's types say which go to and
/// come from every neighbour: MPI takes them from where they lie, and puts them where they belong.
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

  /// Collective. Own rows must stay as they are, and others' are not there, until the request ends.
  MPI_Request begin(std::byte* rows) const;

 private:
  void swap(Halo& other) noexcept;

  MPI_Comm neighbours_ = MPI_COMM_NULL;  ///< the graph's
  std::vector<MPI_Datatype> sent_, received_;
  std::vector<int> ones_;
  std::vector<MPI_Aint> send_offsets_, receive_offsets_;
  double sent_bytes_ = 0;
};

}  // namespace heed::mpi
