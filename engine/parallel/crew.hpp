// Threads that come to help with a run if and when they can. The run waits only for those that
// came.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "engine/parallel/executor.hpp"

namespace heed {

/// Never destroyed: an invited thread may come long after the run and its context are gone.
class alignas(64) Crew {
 public:
  /// A crew that no other run uses until close(); nullptr if there is none.
  static Crew* find();
  /// Makes the crews that find() looks through. Throws if there is no memory.
  static void prepare();

  /// Lets in up to workers - 1 helpers from now on. The caller is worker 0.
  void open(std::uint32_t workers, Body body, void* argument);
  /// Lets nobody in any more, and waits for those inside.
  void close();

  /// Called by a helper: joins the run that is open now, if any.
  void help();

  /// Invitations not yet followed: whoever sends one counts up, help() counts down.
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
