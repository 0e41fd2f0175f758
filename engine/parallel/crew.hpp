// Threads that come to help with a run if and when they can. The run waits for those that came,
// and for nobody else.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "engine/parallel/executor.hpp"

namespace heed {

/// Never destroyed: who was invited may come long after the run and its context are gone.
class alignas(64) Crew {
 public:
  /// One that no run uses, for this run alone until close(); nullptr if there is none.
  static Crew* find();
  /// Makes what find() looks through. Throws where there is no memory.
  static void prepare();

  /// From now on up to workers - 1 helpers are let in. The caller is worker 0.
  void open(std::uint32_t workers, Body body, void* argument);
  /// Lets nobody in any more, and waits for those inside.
  void close();

  /// Called by a helper: works on what is open now, if anything is.
  void help();

  /// Invitations that helpers have not yet followed. Kept by those who send them and help().
  std::atomic<std::int32_t> invited{0};

 private:
  std::uint32_t enter();
  void leave();
  void wait_until_empty();

  std::atomic<bool> used_{false};
  std::atomic<std::uint32_t> seats_and_inside_{0};  ///< free seats above kSeat, helpers below it
  Body body_ = nullptr;
  void* argument_ = nullptr;
  std::mutex mutex_;
  std::condition_variable empty_;
};

}  // namespace heed
