// Threads that come to help with a run if and when they can. The run waits only for threads that
// came.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "engine/parallel/parallel_for.hpp"

namespace heed {

class alignas(64) Crew {
 public:
  /// Takes the crew for a run, until close(); false where another run has it.
  bool take() {
    return !taken_.load(std::memory_order_relaxed) &&
           !taken_.exchange(true, std::memory_order_acquire);
  }
  /// Lets in up to workers - 1 helpers from now on. The caller is worker 0.
  void open(std::uint32_t workers, Body body, void* argument) {
    body_ = body;
    argument_ = argument;
    seats_and_inside_.store((workers - 1) * kSeat, std::memory_order_release);
  }
  /// Lets nobody in any more, waits for the helpers inside, and leaves the crew to other runs.
  void close() {
    seats_and_inside_.fetch_and(kInside, std::memory_order_relaxed);
    wait_until_empty();
    taken_.store(false, std::memory_order_release);
  }

  /// Whether one more helper would be let in.
  bool has_seats() const { return seats_and_inside_.load(std::memory_order_relaxed) >= kSeat; }
  /// Lets the calling thread in: the index of the new worker, or 0 if there is no free seat.
  std::uint32_t enter() {
    std::uint32_t now = seats_and_inside_.load(std::memory_order_relaxed);
    while (now >= kSeat)
      if (seats_and_inside_.compare_exchange_weak(now, now - kSeat + 1, std::memory_order_acquire,
                                                  std::memory_order_relaxed))
        return now / kSeat;
    return 0;
  }
  /// Works to the end, as a helper that was let in.
  void work(std::uint32_t worker) {
    body_(argument_, worker);
    // The last one leaves a closed crew: close() may be asleep.
    if (seats_and_inside_.fetch_sub(1, std::memory_order_release) != 1) return;
    { const std::lock_guard<std::mutex> lock(mutex_); }
    empty_.notify_all();
  }

 private:
  static constexpr std::uint32_t kSeat = 1U << 16;
  static constexpr std::uint32_t kInside = kSeat - 1;
  /// Long enough for the ends of most tasks; whoever waits longer had better sleep.
  static constexpr int kYields = 100;

  void wait_until_empty() {
    const auto empty = [this] { return seats_and_inside_.load(std::memory_order_acquire) == 0; };
    for (int i = 0; i < kYields; ++i) {
      if (empty()) return;
      std::this_thread::yield();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    empty_.wait(lock, empty);
  }

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
