// What else the process of a run may be doing: forking, running on small stacks, handling signals,
// having fewer CPUs than the run has threads.
//
//   test_process fork|stacks|signals|quiet EXECUTOR      EXECUTOR: of heed, or "caller"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/children.hpp"
#include "tests/faults/entries.hpp"

using namespace heed_test;

namespace {

int failures = 0;

void expect(bool good, const std::string& what) {
  if (good) return;
  ++failures;
  (void)std::fprintf(stderr, "FAILED: %s; last error: %s\n", what.c_str(), heed_last_error());
}

/// Every entry point and what it computes on one thread.
struct Expected {
  Expected() {
    for (const Entry& entry : entries()) out.push_back(expected(entry));
  }
  void check(Scene& scene, const std::string& where) const {
    for (std::size_t i = 0; i < entries().size(); ++i) {
      const heed_status status = call(entries()[i], scene);
      expect(status == HEED_STATUS_OK, entries()[i].name + where);
      expect(scene.out() == out[i], entries()[i].name + where + ": the same bits");
    }
  }
  std::vector<std::vector<unsigned char>> out;
};

// ---- Forks ------------------------------------------------------------------------------------

Leave leave_of(const char* executor) {
  const bool tbb = executor != nullptr && std::strcmp(executor, "tbb") == 0;  // NULL: the caller's
  return tbb ? Leave::kAtOnce : Leave::kByExit;
}

/// In a child whose parent has run: on the thread that forked, on a new one, in a grandchild.
int run_in_child(const Expected& good, Scene& scene, const char* executor) {
  failures = 0;
  good.check(scene, " in a child");
  good.check(scene, " again");
  {
    Scene made_in_child(executor);
    good.check(made_in_child, " with a context made in a child");
  }
  std::thread([&] { good.check(scene, " on a thread of a child"); }).join();
  const auto in_grandchild = [&] {
    failures = 0;
    good.check(scene, " in a grandchild");
    return failures;
  };
  const Ending ending = in_child(in_grandchild, leave_of(executor));
  expect(ending.code == 0, "the grandchild: " + ending.cause + " " + ending.said);
  return failures;
}

void test_fork(const char* executor) {
  const Expected good;
  Scene scene(executor);
  good.check(scene, " before a fork");
  for (int i = 0; i < 3; ++i) {
    const Ending ending =
        in_child([&] { return run_in_child(good, scene, executor); }, leave_of(executor));
    expect(ending.code == 0, "the child: " + ending.cause + " " + ending.said);
    good.check(scene, " in the parent of a fork");
  }
}

// ---- Small stacks -----------------------------------------------------------------------------

constexpr std::size_t kPage = 4096;

/// A thread with a stack of that size has run function; false where there can be none.
bool on_stack(std::size_t size, std::function<void()> function) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  (void)pthread_attr_setstacksize(&attributes, size);
  const auto run = [](void* given) -> void* {
    (*static_cast<std::function<void()>*>(given))();
    return nullptr;
  };
  pthread_t thread{};
  const bool created = pthread_create(&thread, &attributes, run, &function) == 0;
  if (created) pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  return created;
}

/// 64 KiB beside the thread-local data of all libraries, which lies on stacks too: of OpenBLAS
/// alone there are 60 KiB. The smallest stack that a thread can have is little more than that data.
std::size_t small_stack() {
  static const std::size_t size = [] {
    std::size_t smallest = 4 * kPage;
    while (!on_stack(smallest, [] {})) smallest += kPage;
    return smallest + (std::size_t{64} << 10) - 4 * kPage;
  }();
  return size;
}

void on_small_stack(std::function<void()> function) {
  expect(on_stack(small_stack(), std::move(function)), "a thread with a small stack");
}

/// A caller's executor whose threads have small stacks too.
void run_on_small_stacks(void*, std::uint32_t count, void (*body)(void*, std::uint32_t),
                         void* argument) {
  std::vector<std::thread> starters;
  for (std::uint32_t i = 0; i < count; ++i)
    starters.emplace_back([=] { on_small_stack([=] { body(argument, i); }); });
  for (std::thread& starter : starters) starter.join();
}

void test_stacks(const char* executor) {
  const Expected good;
  for (std::size_t i = 0; i < heed_isa_count(); ++i) {
    heed_isa_info isa = HEED_ISA_INFO_INIT;
    (void)heed_isa_get(i, &isa);
    if (isa.usable == 0) continue;
    on_small_stack([&] {
      Scene scene(executor, nullptr, 4, isa.name);
      scene.executor.run = run_on_small_stacks;
      const bool widest = i + 1 == heed_isa_count();
      for (const Entry& entry : entries())
        expect(call(entry, scene) == HEED_STATUS_OK, entry.name + ", " + isa.name);
      if (widest) good.check(scene, " on a small stack");
    });
  }
}

// ---- Signals ----------------------------------------------------------------------------------

std::atomic<int> signals_seen{0};

/// Runs everything under a timer that interrupts whichever thread it finds, system calls included.
void test_signals(const char* executor) {
  const Expected good;
  Scene scene(executor);
  struct sigaction action {};
  action.sa_handler = [](int) { signals_seen.fetch_add(1, std::memory_order_relaxed); };
  for (const auto& [timer, signal] : {std::pair{ITIMER_REAL, SIGALRM}, {ITIMER_PROF, SIGPROF}}) {
    sigaction(signal, &action, nullptr);
    const itimerval every_ms = {{0, 1000}, {0, 1000}};
    setitimer(timer, &every_ms, nullptr);
    for (int i = 0; i < 1000 && (i < 10 || signals_seen < 20); ++i)
      good.check(scene, " under signals");
    const itimerval never = {{0, 0}, {0, 0}};
    setitimer(timer, &never, nullptr);
    expect(signals_seen >= 20, "signals come");
    signals_seen = 0;
  }
}

// ---- Quiet --------------------------------------------------------------------------------------

/// With many more threads than CPUs, nothing is printed.
void test_quiet(const char* executor) {
  const Ending ending = in_child([&] {
    for (const std::uint32_t threads : {2U, 64U, 300U}) {
      Scene scene(executor, nullptr, threads);
      for (const Entry& entry : entries())
        if (call(entry, scene) != HEED_STATUS_OK) return 1;
    }
    return 0;
  });
  expect(ending.code == 0, "runs with many threads " + ending.cause);
  expect(ending.said.empty(), "heed never prints; but: " + ending.said);
}

}  // namespace

int main(int count, char** arguments) {
  constexpr int kSkipped = 77;
  constexpr struct {
    const char* name;
    void (*run)(const char* executor);
  } kTests[] = {{"fork", test_fork},
                {"stacks", test_stacks},
                {"signals", test_signals},
                {"quiet", test_quiet}};
  if (count != 3) return 2;
  const char* const executor = std::strcmp(arguments[2], "caller") == 0 ? nullptr : arguments[2];
  if (!built_in(executor)) return kSkipped;
  for (const auto& test : kTests) {
    if (std::strcmp(arguments[1], test.name) != 0) continue;
    test.run(executor);
    return failures == 0 ? 0 : 1;
  }
  return 2;
}
