#include "engine/parallel/threads.hpp"

#if !defined(_WIN32)
#include <signal.h>
#endif

#include <algorithm>
#include <mutex>
#include <new>

#include "engine/parallel/executor.hpp"

namespace heed {
namespace {

/// Threads on trial live until the gate opens, so that they exist at the same time.
std::mutex gate;
std::mutex one_trial;
Thread on_trial[kMaxThreads];  // not on the stack, which may be small

void* pass_the_gate(void*) {
  const std::lock_guard<std::mutex> pass(gate);
  return nullptr;
}

}  // namespace

bool start_thread(Thread& thread, void* (*function)(void*), void* argument) noexcept {
#if defined(_WIN32)
  return pthread_create(&thread, nullptr, function, argument) == 0;
#else
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // which the new thread has from this one
  const bool started = pthread_create(&thread, nullptr, function, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
#endif
}

void join_thread(Thread thread) noexcept { (void)pthread_join(thread, nullptr); }

std::uint32_t startable_threads(std::uint32_t wanted) noexcept {
  const std::lock_guard<std::mutex> trial(one_trial);
  std::uint32_t started = 0;
  {
    const std::lock_guard<std::mutex> closed(gate);
    wanted = std::min(wanted, kMaxThreads);
    while (started < wanted && start_thread(on_trial[started], pass_the_gate, nullptr)) ++started;
  }
  for (std::uint32_t i = 0; i < started; ++i) join_thread(on_trial[i]);
  return started;
}

void abandon_trials() noexcept {
  new (&gate) std::mutex;
  new (&one_trial) std::mutex;
}

}  // namespace heed
