#include "engine/parallel/crew.hpp"

#include <thread>

namespace heed {
namespace {

/// Long enough for the ends of most tasks; whoever waits longer had better sleep.
constexpr int kYields = 100;

}  // namespace

bool Crew::take() {
  return !taken_.load(std::memory_order_relaxed) &&
         !taken_.exchange(true, std::memory_order_acquire);
}

void Crew::open(std::uint32_t workers, Body body, void* argument) {
  body_ = body;
  argument_ = argument;
  seats_and_inside_.store((workers - 1) * kSeat, std::memory_order_release);
}

void Crew::close() {
  seats_and_inside_.fetch_and(kInside, std::memory_order_relaxed);
  wait_until_empty();
  taken_.store(false, std::memory_order_release);
}

std::uint32_t Crew::enter() {
  std::uint32_t now = seats_and_inside_.load(std::memory_order_relaxed);
  while (now >= kSeat)
    if (seats_and_inside_.compare_exchange_weak(now, now - kSeat + 1, std::memory_order_acquire,
                                                std::memory_order_relaxed))
      return now / kSeat;
  return 0;
}

void Crew::work(std::uint32_t worker) {
  body_(argument_, worker);
  // The last one leaves a closed crew: close() may be asleep.
  if (seats_and_inside_.fetch_sub(1, std::memory_order_release) != 1) return;
  { const std::lock_guard<std::mutex> lock(mutex_); }
  empty_.notify_all();
}

void Crew::wait_until_empty() {
  const auto empty = [this] { return seats_and_inside_.load(std::memory_order_acquire) == 0; };
  for (int i = 0; i < kYields; ++i) {
    if (empty()) return;
    std::this_thread::yield();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  empty_.wait(lock, empty);
}

}  // namespace heed
