#include "engine/parallel/parallel_for.hpp"

#include <algorithm>
#include <atomic>

#include "engine/runtime/error.hpp"

namespace heed {
namespace {

/// What the workers of one run share. The stores and loads of `next` around a run hand over what
/// the threads read and write, whether or not the executor does so in a way that tools can see.
struct Run {
  const Tasks& tasks;
  TaskFunction call;
  const void* function;
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> finished{0};
};

void work(void* argument, std::uint32_t worker) {
  Run& run = *static_cast<Run*>(argument);
  (void)run.next.load(std::memory_order_acquire);
  const Tasks& tasks = run.tasks;
  std::int64_t finished = 0;
  if (worker < tasks.workers) {  // else a caller's executor miscounts: nobody is that worker
    std::int64_t begin = run.next.fetch_add(tasks.per_claim, std::memory_order_relaxed);
    while (begin < tasks.count) {
      const std::int64_t end = std::min(begin + tasks.per_claim, tasks.count);
      run.call(run.function, begin, end, worker);
      finished += end - begin;
      begin = run.next.fetch_add(tasks.per_claim, std::memory_order_relaxed);
    }
  }
  run.finished.fetch_add(finished, std::memory_order_release);
}

}  // namespace

void run_tasks(const Threads& threads, const Tasks& tasks, TaskFunction call,
               const void* function) {
  if (tasks.count == 0) return;
  if (tasks.workers == 1) return call(function, 0, tasks.count, 0);
  Run run{tasks, call, function};
  run.next.store(0, std::memory_order_release);
  threads.executor->run(tasks.workers, work, &run);
  const std::int64_t finished = run.finished.load(std::memory_order_acquire);
  if (finished != tasks.count)
    fail(HEED_STATUS_EXECUTOR_FAILED, "the executor \"%s\" ran %lld of %lld tasks", threads.name,
         static_cast<long long>(finished), static_cast<long long>(tasks.count));
}

}  // namespace heed
