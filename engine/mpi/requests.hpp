// Messages on their way.
#pragma once

#include <mpi.h>

#include <cstddef>

#include "engine/mpi/communicator.hpp"

namespace heed::mpi {

/// Sends and receives that have begun, in memory that somebody lends.
class Requests {
 public:
  Requests(const Communicator& comm, void* memory)
      : comm_(comm), requests_(static_cast<MPI_Request*>(memory)) {}

  void receive(std::byte* to, std::size_t bytes, int rank, int tag) {
    check(MPI_Irecv(to, Communicator::units(bytes), comm_.unit(), rank, tag, comm_.get(),
                    &requests_[count_++]),
          "MPI_Irecv");
  }
  void send(const std::byte* from, std::size_t bytes, int rank, int tag) {
    check(MPI_Isend(from, Communicator::units(bytes), comm_.unit(), rank, tag, comm_.get(),
                    &requests_[count_++]),
          "MPI_Isend");
  }
  /// Lets MPI work on them.
  void progress() {
    int done = 0;
    if (count_ > 0)
      check(MPI_Testall(count_, requests_, &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (done != 0) count_ = 0;
  }
  void wait() {
    if (count_ > 0) check(MPI_Waitall(count_, requests_, MPI_STATUSES_IGNORE), "MPI_Waitall");
    count_ = 0;
  }

 private:
  const Communicator& comm_;
  MPI_Request* const requests_;
  int count_ = 0;
};

}  // namespace heed::mpi
