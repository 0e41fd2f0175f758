#include "engine/parallel/crew.hpp"

#include <thread>

namespace heed {
namespace {

constexpr std::uint32_t kSeat = 1U << 16;
constexpr std::uint32_t kInside = kSeat - 1;

constexpr int kCrews = 64;  // runs at the same time; any more go without helpers

/// Long enough for the ends of most tasks; whoever waits longer had better sleep.
constexpr int kYields = 100;

Crew* all() {
  static Crew* const crews = new Crew[kCrews];
  return crews;
}

}  // namespace

void Crew::prepare() { (void)all(); }

Crew* Crew::find() {
  for (int i = 0; i < kCrews; ++i) {
    Crew& crew = all()[i];
    if (!crew.used_.load(std::memory_order_relaxed) &&
        !crew.used_.exchange(true, std::memory_order_acquire))
      return &crew;
  }
  return nullptr;
}

void Crew::open(std::uint32_t workers, Body body, void* argument) {
  body_ = body;
  argument_ = argument;
  seats_and_inside_.store((workers - 1) * kSeat, std::memory_order_release);
}

void Crew::close() {
  seats_and_inside_.fetch_and(kInside, std::memory_order_relaxed);
  wait_until_empty();
  used_.store(false, std::memory_order_release);
}

void Crew::help() {
  invited.fetch_sub(1, std::memory_order_relaxed);
  const std::uint32_t worker = enter();
  if (worker == 0) return;
  body_(argument_, worker);
  leave();
}

/// The index of the new worker, or 0 if there is no free seat.
std::uint32_t Crew::enter() {
  std::uint32_t now = seats_and_inside_.load(std::memory_order_relaxed);
  while (now >= kSeat)
    if (seats_and_inside_.compare_exchange_weak(now, now - kSeat + 1, std::memory_order_acquire,
                                                std::memory_order_relaxed))
      return now / kSeat;
  return 0;
}

void Crew::leave() {
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
