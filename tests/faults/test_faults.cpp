// The nth request for memory or for a thread is refused, n = 1, 2 ... until nobody asks that often:
// every entry point with every executor ends, with the result or with a status and untouched
// outputs, leaves no memory behind, and works again afterwards.
//
//   test_faults [EXECUTOR]      all of them unless named
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tests/faults/children.hpp"
#include "tests/faults/entries.hpp"
#include "tests/faults/interposed.hpp"
#include "tests/support/allocator.hpp"

#if defined(HEED_WITH_TBB)
#include <tbb/global_control.h>
#include <tbb/info.h>
#endif

using namespace heed_test;

namespace {

using Outputs = std::vector<unsigned char>;

struct Kind {
  const char* name;
  Resource resource;
  bool memory;
};
constexpr Kind kKinds[] = {{"operator new", Resource::kNew, true},
                           {"malloc", Resource::kMalloc, true},
                           {"thread", Resource::kThread, false},
                           {"threads at once", Resource::kThreadsAtOnce, false}};

struct Executor {
  const char* name;
  const char* heeds;        ///< its name in heed; nullptr for a caller's
  std::size_t tbb_threads;  ///< that oneTBB is allowed, to have more than the CPUs; 0: as it is
  bool keeps_memory;        ///< of its own, from run to run
};
constexpr Executor kExecutors[] = {
    {"serial", "serial", 0, false},         {"caller", nullptr, 0, false},
    {"threads", "threads", 0, false},       {"tbb", "tbb", 0, true},
    {"tbb with 6 threads", "tbb", 6, true}, {"openmp", "openmp", 0, true}};

constexpr std::int64_t kAny = INT64_MAX;
constexpr std::int64_t kHelpers = 3;  // of the threads that a Scene uses

int failures = 0;

void fail(const std::string& where, const std::string& what) {
  ++failures;
  (void)std::printf("FAILED: %s: %s\n", where.c_str(), what.c_str());
}

/// For as long as this lives.
struct AllowThreads {
#if defined(HEED_WITH_TBB)
  explicit AllowThreads(std::size_t threads) {
    if (threads == 0) return;
    (void)tbb::info::default_concurrency();  // counts the CPUs, which the control wants at its end
    control.emplace(tbb::global_control::max_allowed_parallelism, threads);
  }
  std::optional<tbb::global_control> control;
#else
  explicit AllowThreads(std::size_t) {}
#endif
};

/// Whether a call under a fault ended as it should; says otherwise on stderr.
bool sound(heed_status status, const Kind& kind, const Scene& scene, const Outputs& good) {
  const Outputs out = scene.out();
  const bool right =
      status == HEED_STATUS_OK
          ? out == good
          : kind.memory && status == HEED_STATUS_OUT_OF_MEMORY && out == untouched(scene);
  if (!right)
    (void)std::fprintf(stderr, "status %d, %s outputs: %s", static_cast<int>(status),
                       out == good               ? "complete"
                       : out == untouched(scene) ? "untouched"
                                                 : "other",
                       heed_last_error());
  return right;
}

enum Code { kAsked, kNotAsked, kWrong };

/// An entry point whose executor has run before: every fault in one process.
int fault_warm(const Entry& entry, const Executor& executor, const Kind& kind) {
  const Outputs good = expected(entry);
  const AllowThreads allowed(executor.tbb_threads);
  CountingAllocator memory;
  Scene scene(executor.heeds, &memory.get());
  for (int i = 0; i < 2; ++i)
    if (!sound(call(entry, scene), kind, scene, good)) return kWrong;
  for (std::int64_t n = 1;; ++n) {
    const std::size_t live = memory.live();
    const std::int64_t blocks = live_blocks();
    refuse(kind.resource, n);
    const heed_status status = call(entry, scene);
    const bool asked = stop_refusing();
    if (!sound(status, kind, scene, good)) return kWrong;
    if (memory.live() != live || (!executor.keeps_memory && live_blocks() != blocks)) {
      (void)std::fprintf(stderr, "request %lld: memory stays behind", static_cast<long long>(n));
      return kWrong;
    }
    if (call(entry, scene) != HEED_STATUS_OK || scene.out() != good) {
      (void)std::fprintf(stderr, "request %lld: does not recover", static_cast<long long>(n));
      return kWrong;
    }
    if (!asked) return kAsked;
  }
}

/// A process that has not used the executor yet: the nth request from the context on.
int fault_cold(const Executor& executor, const Kind& kind, std::int64_t n) {
  const Entry& entry = attention_entry();
  const Outputs good = expected(entry);
  const AllowThreads allowed(executor.tbb_threads);
  CountingAllocator memory;
  Scene scene("serial");
  scene.options.executor_name = executor.heeds;
  scene.options.allocator = &memory.get();
  const auto attempt = [&] {
    heed_context* made = nullptr;
    heed_status status = heed_context_create(&scene.options, &made);
    Context other(made);
    if (status != HEED_STATUS_OK) return status;
    scene.context.swap(other);
    status = call(entry, scene);
    scene.context.swap(other);
    return status;
  };
  refuse(kind.resource, n);
  const heed_status status = attempt();
  const bool asked = stop_refusing();
  if (!sound(status, kind, scene, good)) return kWrong;
  if (memory.live() != 0) {
    (void)std::fprintf(stderr, "memory stays behind");
    return kWrong;
  }
  if (attempt() != HEED_STATUS_OK) {
    (void)std::fprintf(stderr, " (does not recover)");
    return kWrong;
  }
  return asked ? kAsked : kNotAsked;
}

/// Endings of the process that are a runtime's own, and that nobody can keep it from: libgomp exits
/// where malloc fails, or a thread that could be started a moment before cannot be.
bool by_runtime(const Executor& executor, const Kind& kind, std::int64_t n, const Ending& ending) {
  if (executor.heeds == nullptr || std::strcmp(executor.heeds, "openmp") != 0) return false;
  const auto said = [&](const char* text) { return ending.said.find(text) != std::string::npos; };
  if (kind.resource == Resource::kMalloc) return said("libgomp: Out of memory");
  return kind.resource == Resource::kThread && n > kHelpers &&
         said("libgomp: Thread creation failed");
}

int ended_by_runtime = 0;

void check(const std::string& where, const Executor& executor, const Kind& kind, std::int64_t n,
           const Ending& ending) {
  if (ending.code == kAsked || ending.code == kNotAsked) return;
  if (by_runtime(executor, kind, n, ending)) {
    ++ended_by_runtime;
  } else {
    fail(where, ending.cause + " " + ending.said);
  }
}

void test_warm(const Executor& executor) {
  for (const Kind& kind : kKinds)
    for (const Entry& entry : entries())
      check(entry.name + ", " + executor.name + ", " + kind.name, executor, kind, kAny,
            in_child([&] { return fault_warm(entry, executor, kind); }));
}

void test_cold(const Executor& executor) {
  for (const Kind& kind : kKinds) {
    int refused = 0;
    Ending ending{kAsked, "", ""};
    for (std::int64_t n = 1; ending.code != kNotAsked; ++n) {
      ending = in_child([&] { return fault_cold(executor, kind, n); });
      const std::string where =
          std::string("first run, ") + executor.name + ", " + kind.name + " " + std::to_string(n);
      check(where, executor, kind, n, ending);
      if (++refused == 1000) return fail(where, "asks without end");
    }
    (void)std::printf("%s: %d first runs, %s refused\n", executor.name, refused - 1, kind.name);
  }
}

/// A run asks for no memory at all, on any instruction set. After a first run, for what is not
/// heed's; executors that start threads may allocate in those.
void test_runs(const Executor& executor) {
  for (std::size_t i = 0; i < heed_isa_count(); ++i) {
    auto isa = sized<heed_isa_info>();
    if (heed_isa_get(i, &isa) != HEED_STATUS_OK || isa.usable == 0) continue;
    heed_executor caller = in_order(3);
    auto options = sized<heed_context_options>();
    options.isa = isa.name;
    options.executor_name = executor.heeds;
    if (executor.heeds == nullptr) options.executor = &caller;
    const Context context = create<heed_context>(&options);
    for (const api_test::Kind& kind : api_test::kinds()) {
      const std::string where = kind.name + std::string(", a run, ") + executor.name;
      const auto problem = kind.problem();
      api_test::Object plan;
      if (!problem->prepare_and_create(context, plan)) return fail(where, heed_last_error());
      const api_test::Workspace workspace(problem->workspace(plan));
      std::uint64_t before = 0;
      for (int n = 0; n < 4; ++n) {
        if (problem->run(plan, workspace.get(), workspace.bytes()) != HEED_STATUS_OK)
          fail(where, heed_last_error());
        if (n == 0) before = memory_requests();
      }
      if (before == 0 || memory_requests() != before) fail(where, "asks for memory");
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  constexpr int kSkipped = 77;
  int tried = 0;
  for (const Executor& executor : kExecutors) {
    if (count > 1 && std::strcmp(arguments[1], executor.name) != 0) continue;
    if (!built_in(executor.heeds)) continue;
    ++tried;
    test_warm(executor);
    if (executor.heeds != nullptr) test_cold(executor);
    if (!executor.keeps_memory) test_runs(executor);
  }
  (void)std::printf("%d processes ended by a runtime, %d failures\n", ended_by_runtime, failures);
  if (tried == 0) return kSkipped;
  return failures == 0 ? 0 : 1;
}
