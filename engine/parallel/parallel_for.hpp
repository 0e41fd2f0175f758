// Running a body on several threads, behind one interface: serial, heed's own threads, oneTBB's,
// OpenMP's or the caller's. Executors hand out worker indices, nothing else. Workers claim tasks in
// order from one counter: which worker does which task is decided while they run, so that late
// threads cost nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "api/heed.h"
#include "engine/runtime/allocator.hpp"

namespace heed {

// ---- Executors ----------------------------------------------------------------------------------

using Body = void (*)(void* argument, std::uint32_t worker);

/// The most threads that anything may use.
inline constexpr std::uint32_t kMaxThreads = 1024;

class Executor {
 public:
  virtual ~Executor() = default;
  /// Calls body(argument, w) at most once for each w < workers, concurrently where it can, and
  /// returns when all have returned. A worker that comes claims tasks until there are none, so not
  /// all need to come; worker 0 must. May be called from several threads at once.
  virtual void run(std::uint32_t workers, Body body, void* argument) const = 0;
};

template <class Kind>
void destroy_executor(const heed_allocator& allocator, Executor* executor) {
  destroy(allocator, static_cast<Kind*>(executor));
}

/// The caller's.
class CallerExecutor final : public Executor {
 public:
  explicit CallerExecutor(const heed_executor& given) : given_(given) {}
  void run(std::uint32_t workers, Body body, void* argument) const override {
    given_.run(given_.user, workers, body, argument);
  }

 private:
  heed_executor given_;
};

/// A kind of executor that was compiled in.
struct ExecutorKind {
  const char* name;
  Executor* (*create)(const heed_allocator& allocator, std::uint32_t threads);
  void (*destroy)(const heed_allocator& allocator, Executor* executor);

  template <class Kind>
  static constexpr ExecutorKind of(const char* name) {
    return {name,
            [](const heed_allocator& allocator, std::uint32_t threads) -> Executor* {
              return make<Kind>(allocator, allocator, threads);
            },
            destroy_executor<Kind>};
  }
};

extern const ExecutorKind kSerialExecutor;
extern const ExecutorKind kThreadsExecutor;
extern const ExecutorKind kTbbExecutor;     // where HEED_WITH_TBB
extern const ExecutorKind kOpenMpExecutor;  // where HEED_WITH_OPENMP

/// The preferred kind comes last.
std::size_t executor_count();
const ExecutorKind& executor_at(std::size_t index);

// ---- Tasks --------------------------------------------------------------------------------------

/// Handing out a claim of less work than this costs more than it saves (about 20 us).
inline constexpr double kFlopsPerClaim = 2e6;

/// A context's threads.
struct Threads {
  const Executor* executor;
  const char* name;  ///< of the executor
  std::uint32_t count;
};

struct Tasks {
  std::int64_t count;
  std::int64_t per_claim;  ///< so that a claim is worth its atomic increment
  std::uint32_t workers;
};

/// Tasks that read so many values in all, one claim for each of as many workers as they are worth.
Tasks share_evenly(const Threads& threads, std::int64_t tasks, double values);

/// The tasks [begin, end).
struct TaskRange {
  std::int64_t begin, end;
};

/// Shared by the workers of a loop: which tasks nobody has claimed, and how many are done.
class Claims {
 public:
  explicit Claims(const Tasks& tasks) : tasks_(tasks) {}

  /// Makes visible to workers whatever this thread has written so far.
  void open() { next_.store(0, std::memory_order_release); }

  /// Finds the next tasks of a worker that has done the tasks in `range`, which is empty at first;
  /// false: there are no more.
  bool next(std::uint32_t worker, TaskRange& range);

  /// Throws unless every task is done.
  void check_all_done(const Threads& threads) const;

 private:
  const Tasks tasks_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::int64_t> done_{0};
};

/// Calls function(begin, end, worker) until each task is done once; calls at the same time have
/// different workers. One worker is this thread, more come from the executor. Throws if that left
/// tasks undone. `function` must not throw.
template <class Function>
void parallel_for(const Threads& threads, const Tasks& tasks, const Function& function) {
  struct Loop {
    Claims claims;
    const Function& function;
  } loop{Claims(tasks), function};
  // Compiled once, though called in two ways.
  const auto work = [](void* argument, std::uint32_t worker) __attribute__((noinline)) {
    Loop& shared = *static_cast<Loop*>(argument);
    TaskRange range{};
    while (shared.claims.next(worker, range)) shared.function(range.begin, range.end, worker);
  };
  if (tasks.workers == 1 || tasks.count == 0) return work(&loop, 0);
  loop.claims.open();
  threads.executor->run(tasks.workers, work, &loop);
  loop.claims.check_all_done(threads);
}

/// The same, calling function(task, worker).
template <class Function>
void parallel_each(const Threads& threads, const Tasks& tasks, const Function& function) {
  parallel_for(threads, tasks, [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
    for (std::int64_t task = begin; task < end; ++task) function(task, worker);
  });
}

/// The indices [0, count) as ranges of nearly even size.
struct Ranges {
  std::int64_t count;
  std::int64_t ranges;

  /// As many ranges as keep the threads busy and are large enough to pay off.
  static Ranges of(const Threads& threads, std::int64_t count) {
    constexpr std::int64_t kWorthwhile = 1 << 14;
    constexpr std::int64_t kPerThread = 4;
    const std::int64_t most = threads.count == 1 ? 1 : threads.count * kPerThread;
    return {count, std::clamp(count / kWorthwhile, std::int64_t{1}, most)};
  }
  std::int64_t begin(std::int64_t range) const {
    return count / ranges * range + std::min(range, count % ranges);
  }
};

/// Calls function(range, begin, end) for every range. It must not throw.
template <class Function>
void each_range(const Threads& threads, const Ranges& ranges, const Function& function) {
  const auto workers =
      static_cast<std::uint32_t>(std::min<std::int64_t>(ranges.ranges, threads.count));
  parallel_each(threads, {ranges.ranges, 1, workers}, [&](std::int64_t r, std::uint32_t) {
    function(r, ranges.begin(r), ranges.begin(r + 1));
  });
}

/// The lowest i in [0, count) of which test(i) is true, else count.
template <class Test>
std::int64_t first_where(const Threads& threads, std::int64_t count, const Test& test) {
  std::atomic<std::int64_t> first{count};
  each_range(threads, Ranges::of(threads, count),
             [&](std::int64_t, std::int64_t begin, std::int64_t end) {
               std::int64_t i = begin;
               while (i < end && !test(i)) ++i;
               if (i == end) return;
               std::int64_t lowest = first.load();
               while (i < lowest && !first.compare_exchange_weak(lowest, i)) continue;
             });
  return first.load();
}

}  // namespace heed
