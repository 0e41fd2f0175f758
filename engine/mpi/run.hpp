// Plans and runs of all operations over ranks: they agree on how it went, and tell where the time
// goes.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "api/heed_mpi.h"
#include "engine/mpi/communicator.hpp"
#include "engine/runtime/text.hpp"

namespace heed::mpi {

struct RankPlan {
  explicit RankPlan(const char* of) : operation(of) {
    const char* const told = std::getenv("HEED_VERBOSE");
    verbose = told != nullptr && std::strcmp(told, "1") == 0;
  }

  /// For verbose lines: the operation, and how the plan does it.
  const char* operation;
  std::string detail;
  bool verbose;
  double sent_bytes = 0;  ///< by this rank in a run
  std::size_t workspace_bytes = 0;
  mutable heed_mpi_times times = HEED_MPI_TIMES_INIT;  ///< of the latest run
};

class RankRun {
 protected:
  RankRun(const Communicator& comm, void* requests) : requests_(comm, requests), comm_(comm) {}

  /// Computes something between messages. A rank that fails goes on to send and receive, so that no
  /// other waits for ever: what is attempted after a failure is left out.
  template <class Function>
  void attempt(Function&& function) {
    if (error_.status != HEED_STATUS_OK) return;
    heed_status status = HEED_STATUS_OK;
    time(compute_, [&] { status = guarded(function); });
    if (status == HEED_STATUS_OK) return;
    error_.status = status;
    std::snprintf(error_.message, sizeof error_.message, "%s", last_error());
  }

  /// Waits for messages or other ranks.
  template <class Function>
  void wait(Function&& function) {
    time(wait_, function);
  }

  /// Collective. Throws the same Error on all ranks where an attempt of one has failed.
  void agree() {
    if (error_.status != HEED_STATUS_OK) set_last_error(error_.message);
    wait([&] { comm_.agree(error_.status); });
  }

  /// Does all of a run, and notes where its time went.
  template <class Work>
  void timed(const RankPlan& plan, Work&& work) {
    double all = 0;
    time(all, work);
    plan.times.run = all;
    plan.times.compute = compute_;
    plan.times.wait = wait_;
    if (plan.verbose)
      tell("%s over MPI, rank %d of %d: %s, %.3f ms computing, %.3f ms waiting, %.0f bytes sent",
           plan.operation, comm_.rank(), comm_.size(), plan.detail.c_str(), compute_ * 1e3,
           wait_ * 1e3, plan.sent_bytes);
  }

  Requests requests_;

 private:
  template <class Function>
  static void time(double& seconds, Function&& function) {
    const auto start = std::chrono::steady_clock::now();
    function();
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const Communicator& comm_;
  double compute_ = 0, wait_ = 0;  ///< seconds
  Error error_ = {};
};

}  // namespace heed::mpi
