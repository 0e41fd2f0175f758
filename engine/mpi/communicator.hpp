// A communicator of a plan's own, and how all its ranks come to one end.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <utility>

#include "engine/runtime/guarded.hpp"

namespace heed::mpi {

/// Throws unless an MPI call went well.
void check(int code, const char* call);

/// Numbers of bytes that travel are multiples of this, so that counts stay ints up to 128 GiB.
inline constexpr std::size_t kUnitBytes = 64;

/// Throws if that is more than a message may have.
void check_message(std::size_t bytes);

class Communicator {
 public:
  /// Duplicates the caller's: messages cannot mix with others. Throws an Error unless MPI runs.
  explicit Communicator(MPI_Comm parent);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm get() const { return comm_; }
  /// A type of kUnitBytes.
  MPI_Datatype unit() const { return unit_; }
  static int units(std::size_t bytes) { return static_cast<int>(bytes / kUnitBytes); }

  /// Returns where the status is OK on all ranks. Otherwise throws the same Error on all of them,
  /// that of the lowest rank which has one: its latest message.
  void agree(heed_status status) const;

  /// Runs function, which must not communicate, and agrees on how it went.
  template <class Function>
  void agreed(Function&& function) const {
    agree(guarded(std::forward<Function>(function)));
  }

  /// Throws unless this thread may call MPI beside heed's others.
  static void check_thread();

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Datatype unit_ = MPI_DATATYPE_NULL;
  int rank_ = 0;
  int size_ = 0;
};

}  // namespace heed::mpi
