// The nth request for memory or for a thread is refused, n = 1, 2 ... until nobody asks that often:
// every entry point with every executor ends, with the result or with a status and untouched
// outputs, leaves no memory behind, and works again afterwards.
//
//   test_faults [EXECUTOR]      all of them unless named
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "tests/faults/children.hpp"
#include "tests/faults/entries.hpp"
#include "tests/support/allocator.hpp"

#if defined(HEED_WITH_TBB)
#include <tbb/global_control.h>
#include <tbb/info.h>
#endif

using namespace heed_test;

// ---- This program's own malloc, operator new and pthread_create ---------------------------------
//
// They come before those of the system, so that tests can count requests and refuse them. Needs
// glibc, which exports its allocator under second names, and no sanitizer, which would replace
// malloc too.

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* memory);
}

namespace {

enum class Resource {
  kNone,
  kNew,           ///< operator new, which throws
  kMalloc,        ///< malloc and its relatives, operator new included
  kThread,        ///< pthread_create
  kThreadsAtOnce  ///< pthread_create where that many of its threads live already
};

std::atomic<Resource> armed{Resource::kNone};
std::atomic<std::int64_t> left{0};  ///< requests until the one to refuse
std::atomic<bool> hit{false};

std::atomic<std::uint64_t> memory_requests{0};  ///< to malloc, its relatives and free
std::atomic<std::int64_t> live_blocks{0};  ///< of memory that were requested and not given back
std::atomic<std::int64_t> threads_alive{0};

/// Counts a request, and what came of it.
void* counted(void* memory) {
  memory_requests.fetch_add(1, std::memory_order_relaxed);
  if (memory != nullptr) live_blocks.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void* no_memory() {
  errno = ENOMEM;
  return counted(nullptr);
}

/// What a thread was created for. Many more than are alive at once, so that none is reused early.
struct Start {
  void* (*function)(void*);
  void* argument;
};
Start starts[4096];
std::atomic<std::uint32_t> next_start{0};

void* run_thread(void* start) {
  const Start given = *static_cast<Start*>(start);
  void* const result = given.function(given.argument);
  threads_alive.fetch_sub(1);
  return result;
}

/// Refuses the nth request for `what` from now on, counted from 1; of kThreadsAtOnce every one that
/// would be the nth thread alive.
void refuse(Resource what, std::int64_t nth) {
  left = nth;
  hit = false;
  armed = what;
}

/// Refuses nothing from now on; whether anything was refused.
bool stop_refusing() {
  armed = Resource::kNone;
  return hit;
}

/// Whether this request is the one to refuse.
bool refused(Resource what) {
  if (armed.load(std::memory_order_relaxed) != what) return false;
  const bool now =
      what == Resource::kThreadsAtOnce ? threads_alive >= left : left.fetch_sub(1) == 1;
  if (now) hit = true;
  return now;
}

}  // namespace

extern "C" {
void* malloc(std::size_t size) {
  return refused(Resource::kMalloc) ? no_memory() : counted(__libc_malloc(size));
}
void* calloc(std::size_t items, std::size_t size) {
  return refused(Resource::kMalloc) ? no_memory() : counted(__libc_calloc(items, size));
}
void* realloc(void* memory, std::size_t size) {
  if (refused(Resource::kMalloc)) return no_memory();
  void* const moved = counted(__libc_realloc(memory, size));
  if (memory != nullptr && (moved != nullptr || size == 0))
    live_blocks.fetch_sub(1, std::memory_order_relaxed);
  return moved;
}
void* memalign(std::size_t alignment, std::size_t size) {
  return refused(Resource::kMalloc) ? no_memory() : counted(__libc_memalign(alignment, size));
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  *memory = memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  if (memory == nullptr) return;
  memory_requests.fetch_add(1, std::memory_order_relaxed);
  live_blocks.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(memory);
}

[[gnu::visibility("default")]] int pthread_create(pthread_t* thread,
                                                  const pthread_attr_t* attributes,
                                                  void* (*function)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (refused(Resource::kThread) || refused(Resource::kThreadsAtOnce)) return EAGAIN;
  Start& start = starts[next_start++ % 4096];
  start = {function, argument};
  ++threads_alive;
  const int failed = create(thread, attributes, run_thread, &start);
  if (failed != 0) --threads_alive;
  return failed;
}
}

void* operator new(std::size_t size) {
  void* const memory = refused(Resource::kNew) ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  void* const memory =
      refused(Resource::kNew) ? nullptr : memalign(static_cast<std::size_t>(alignment), size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

// ---- Tests -------------------------------------------------------------------------------------

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
    const std::int64_t blocks = live_blocks;
    refuse(kind.resource, n);
    const heed_status status = call(entry, scene);
    const bool asked = stop_refusing();
    if (!sound(status, kind, scene, good)) return kWrong;
    if (memory.live() != live || (!executor.keeps_memory && live_blocks != blocks)) {
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
      const api_test::Workspace workspace(problem->describe(plan).workspace_bytes);
      std::uint64_t before = 0;
      for (int n = 0; n < 4; ++n) {
        if (problem->run(plan, workspace.get(), workspace.bytes()) != HEED_STATUS_OK)
          fail(where, heed_last_error());
        if (n == 0) before = memory_requests;
      }
      if (before == 0 || memory_requests != before) fail(where, "asks for memory");
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
