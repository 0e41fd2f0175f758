// Tasks, claimed in order from one counter by the workers of an executor: which worker does which
// task is decided while they run, so that late threads cost nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/parallel/executor.hpp"

namespace heed {

/// A claim of tasks worth less than this is dearer to hand out than to keep (about 20 us).
inline constexpr double kFlopsPerClaim = 2e6;

/// What runs tasks: those of a context.
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

/// The tasks [begin, end).
struct TaskRange {
  std::int64_t begin, end;
};

/// What the workers of a loop share: which tasks nobody has claimed, and how many are done.
class Claims {
 public:
  explicit Claims(const Tasks& tasks) : tasks_(tasks) { next_.store(0, std::memory_order_release); }

  /// The next tasks of a worker that has done those in `range`, at first none; false: there are no
  /// more.
  bool next(std::uint32_t worker, TaskRange& range);

  /// Throws unless every task is done.
  void check_all_done(const Threads& threads) const;

 private:
  const Tasks tasks_;
  std::atomic<std::int64_t> next_;
  std::atomic<std::int64_t> done_{0};
};

/// Calls function(begin, end, worker) until all tasks are done, each once; of the calls at any time
/// each has another `worker`. On this thread if there is one worker, else on the executor. Throws
/// if that left tasks undone. `function` must not throw.
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
  threads.executor->run(tasks.workers, work, &loop);
  loop.claims.check_all_done(threads);
}

}  // namespace heed
