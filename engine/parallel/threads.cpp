#include "engine/parallel/threads.hpp"

#if !defined(_WIN32)
#include <signal.h>
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 32)  // the header for an older one is an error
#define HEED_SEES_THREADS
#include <sys/single_threaded.h>
#endif
#endif

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/error.hpp"

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

// ---- Forks --------------------------------------------------------------------------------------

#if defined(_WIN32)

// No process of Windows is a copy of another.
std::uint32_t forks() noexcept { return 0; }
bool lost_its_threads() noexcept { return false; }
void watch_forks() {}

#else

namespace {

std::atomic<std::uint32_t> times_forked{0};

std::atomic<bool> forks_with_threads{false};  ///< the parent, whose fork is under way, or had some
thread_local bool survived_others = false;

void before_fork() {
#if defined(HEED_SEES_THREADS)
  forks_with_threads.store(__libc_single_threaded == 0, std::memory_order_relaxed);
#else
  forks_with_threads.store(true, std::memory_order_relaxed);
#endif
}

void in_child() {
  times_forked.fetch_add(1, std::memory_order_relaxed);
  if (forks_with_threads.load(std::memory_order_relaxed)) survived_others = true;
  // Another thread's trial stayed in the parent, with its locks.
  new (&gate) std::mutex;
  new (&one_trial) std::mutex;
}

/// A process, as Linux tells of it in its /proc.
struct Process {
  int parent = 0;
  bool forked = false;  ///< and has run no other program since (PF_FORKNOEXEC)
  long threads = 0;
};

bool read_process(const char* id, Process& process) {
  constexpr long kForkedWithoutExec = 0x40;
  char text[512];
  std::snprintf(text, sizeof text, "/proc/%s/stat", id);
  std::FILE* const file = std::fopen(text, "re");
  if (file == nullptr) return false;
  text[std::fread(text, 1, sizeof text - 1, file)] = '\0';
  (void)std::fclose(file);
  // Behind the name, which may hold anything, and a letter: the parent and 16 fields more.
  constexpr std::size_t kParent = 0, kFlags = 5, kThreads = 16;
  long fields[kThreads + 1];
  char* at = std::strrchr(text, ')');
  if (at == nullptr || std::strlen(at) < 4) return false;
  at += 3;
  for (long& field : fields) {
    char* const from = at;
    field = std::strtol(from, &at, 10);
    if (at == from) return false;
  }
  process.parent = static_cast<int>(fields[kParent]);
  process.forked = (fields[kFlags] & kForkedWithoutExec) != 0;
  process.threads = fields[kThreads];
  return true;
}

/// Whether one of the processes that this was forked from has other threads.
bool ancestors_have_threads() {
  Process process;
  if (!read_process("self", process)) return false;
  while (process.forked) {
    char id[16];
    std::snprintf(id, sizeof id, "%d", process.parent);
    if (!read_process(id, process) || process.threads > 1) return true;
  }
  return false;
}

bool is_first_thread() {
#if defined(__linux__)
  return syscall(SYS_gettid) == getpid();
#else
  return false;
#endif
}

/// Looks at forks before heed was loaded: the thread that survived them is the process's first.
const bool first_survived_others = [] {
  try {
    watch_forks();
  } catch (...) {  // whoever makes a context is told
  }
  return ancestors_have_threads();
}();

}  // namespace

bool lost_its_threads() noexcept {
  return survived_others || (first_survived_others && is_first_thread());
}

std::uint32_t forks() noexcept { return times_forked.load(std::memory_order_relaxed); }

void watch_forks() {
  static const bool watching = [] {
    if (pthread_atfork(before_fork, nullptr, in_child) != 0)
      fail(HEED_STATUS_OUT_OF_MEMORY, "the C library has no memory for a fork handler");
    return true;
  }();
  (void)watching;
}

#endif

}  // namespace heed
