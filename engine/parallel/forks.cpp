#include "engine/parallel/forks.hpp"

#include "engine/parallel/threads.hpp"
#include "engine/runtime/error.hpp"

#if defined(_WIN32)

namespace heed {

// No process of Windows is a copy of another.
std::uint32_t forks() noexcept { return 0; }
bool lost_its_threads() noexcept { return false; }
void watch_forks() {}

}  // namespace heed

#else

#include <pthread.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace heed {
namespace {

std::atomic<std::uint32_t> times_forked{0};

std::atomic<bool> forks_with_threads{false};  ///< the parent, whose fork is under way, or had some
thread_local bool survived_others = false;

void before_fork() {
#if __has_include(<sys/single_threaded.h>)
  forks_with_threads.store(__libc_single_threaded == 0, std::memory_order_relaxed);
#else
  forks_with_threads.store(true, std::memory_order_relaxed);
#endif
}

void in_child() {
  times_forked.fetch_add(1, std::memory_order_relaxed);
  if (forks_with_threads.load(std::memory_order_relaxed)) survived_others = true;
  abandon_trials();
}

/// Of a process, as Linux tells in its /proc.
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
  // Behind the name, which may hold anything, and a letter: the parent and 16 numbers more.
  constexpr std::size_t kParent = 0, kFlags = 5, kThreads = 16;
  long numbers[kThreads + 1];
  char* at = std::strrchr(text, ')');
  if (at == nullptr || std::strlen(at) < 4) return false;
  at += 3;
  for (long& number : numbers) {
    char* const from = at;
    number = std::strtol(from, &at, 10);
    if (at == from) return false;
  }
  process.parent = static_cast<int>(numbers[kParent]);
  process.forked = (numbers[kFlags] & kForkedWithoutExec) != 0;
  process.threads = numbers[kThreads];
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

/// Of forks before heed was loaded: the thread that survived them is the process's first.
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

}  // namespace heed

#endif
