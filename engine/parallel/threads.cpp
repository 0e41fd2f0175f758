#include "engine/parallel/threads.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>

#include "engine/parallel/executor.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

std::atomic<std::uint32_t> times_forked{0};

/// Threads on trial live until the gate opens, so that they exist at the same time.
std::mutex gate;
std::mutex one_trial;
pthread_t on_trial[kMaxThreads];  // not on the stack, which may be small

void* pass_the_gate(void*) {
  const std::lock_guard<std::mutex> pass(gate);
  return nullptr;
}

/// In the child of a fork: another thread's trial stayed in the parent, with its locks.
void begin_again() {
  times_forked.fetch_add(1, std::memory_order_relaxed);
  new (&gate) std::mutex;
  new (&one_trial) std::mutex;
}

}  // namespace

std::uint32_t startable_threads(std::uint32_t wanted) noexcept {
  const std::lock_guard<std::mutex> trial(one_trial);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // a program's handlers are not for these threads
  std::uint32_t started = 0;
  {
    const std::lock_guard<std::mutex> closed(gate);
    wanted = std::min(wanted, kMaxThreads);
    while (started < wanted &&
           pthread_create(&on_trial[started], nullptr, pass_the_gate, nullptr) == 0)
      ++started;
  }
  for (std::uint32_t i = 0; i < started; ++i) pthread_join(on_trial[i], nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

std::uint32_t forks() noexcept { return times_forked.load(std::memory_order_relaxed); }

void watch_forks() {
  static const bool watching = [] {
    if (pthread_atfork(nullptr, nullptr, begin_again) != 0)
      fail(HEED_STATUS_OUT_OF_MEMORY, "the C library has no memory for a fork handler");
    return true;
  }();
  (void)watching;
}

}  // namespace heed
