// What a rank computes between messages, and how that went.
#pragma once

#include <cstdio>

#include "engine/mpi/clock.hpp"
#include "engine/mpi/communicator.hpp"

namespace heed::mpi {

/// A rank that fails goes on to send and receive, so that no other waits for ever: what is
/// attempted after a failure is left out.
class Attempts {
 public:
  template <class Function>
  void attempt(Function&& function) {
    if (error_.status != HEED_STATUS_OK) return;
    heed_status status = HEED_STATUS_OK;
    clock_.time([&] { status = guarded(function); });
    if (status == HEED_STATUS_OK) return;
    error_.status = status;
    std::snprintf(error_.message, sizeof error_.message, "%s", last_error());
  }

  /// Collective. Throws the same Error on all ranks where an attempt of one has failed.
  void agree(const Communicator& comm) const {
    if (error_.status != HEED_STATUS_OK) set_last_error(error_.message);
    comm.agree(error_.status);
  }

  double seconds() const { return clock_.seconds(); }

 private:
  Clock clock_;
  Error error_ = {};
};

}  // namespace heed::mpi
