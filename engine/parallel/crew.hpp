// Threads that come to help with a run if and when they can. The run waits only for those that
// came.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "engine/parallel/executor.hpp"

namespace heed {

class alignas(64) Crew {
 public:
  /// Takes the crew for a run, until close(); false where another run has it.
  bool take();
  /// Lets in up to workers - 1 helpers from now on. The caller is worker 0.
  void open(std::uint32_t workers, Body body, void* argument);
  /// Lets nobody in any more, waits for those inside, and leaves the crew to other runs.
  void close();

  /// Whether one more helper would be let in.
  bool has_seats() const { return seats_and_inside_.load(std::memory_order_relaxed) >= kSeat; }
  /// Lets the calling thread in: the index of the new worker, or 0 if there is no free seat.
  std::uint32_t enter();
  /// Works to the end, as a helper that was let in.
  void work(std::uint32_t worker);

 private:
  static constexpr std::uint32_t kSeat = 1U << 16;
  static constexpr std::uint32_t kInside = kSeat - 1;

  void wait_until_empty();

  std::atomic<bool> taken_{false};
  std::atomic<std::uint32_t> seats_and_inside_{0};  ///< free seats above kSeat, helpers below it
  Body body_ = nullptr;
  void* argument_ = nullptr;
  std::mutex mutex_;
  std::condition_variable empty_;
};

/// One of the crews that is taken for the caller, nullptr if other runs have them all.
template <class Crews>
auto take_one(Crews& crews) -> decltype(&crews[0]) {
  for (auto& crew : crews)
    if (crew.take()) return &crew;
  return nullptr;
}

}  // namespace heed
