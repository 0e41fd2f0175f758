#include "engine/parallel/parallel_for.hpp"

#include <algorithm>

#include "engine/runtime/allocator.hpp"
#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {
namespace {

/// The preferred kind comes last.
constexpr const ExecutorKind* kKinds[] = {
    &kSerialExecutor,
    &kThreadsExecutor,
#if defined(HEED_WITH_OPENMP)
    &kOpenMpExecutor,
#endif
#if defined(HEED_WITH_TBB)
    &kTbbExecutor,
#endif
};

class SerialExecutor final : public Executor {
 public:
  SerialExecutor(const heed_allocator& /*allocator*/, std::uint32_t /*threads*/) {}
  void run(std::uint32_t, Body body, void* argument) const override { body(argument, 0); }
};

}  // namespace

const ExecutorKind kSerialExecutor = ExecutorKind::of<SerialExecutor>("serial");

std::size_t executor_count() { return sizeof kKinds / sizeof kKinds[0]; }
const ExecutorKind& executor_at(std::size_t index) { return *kKinds[index]; }

// ---- Tasks --------------------------------------------------------------------------------------

Tasks share_evenly(const Threads& threads, std::int64_t tasks, double values) {
  constexpr double kValuesPerWorker = 1 << 16;
  const auto most = std::min<std::int64_t>(threads.count, std::max<std::int64_t>(tasks, 1));
  const auto workers = static_cast<std::uint32_t>(
      std::clamp(values / kValuesPerWorker, 1.0, static_cast<double>(most)));
  return {tasks, ceil_div(tasks, workers), workers};
}

/// The loads and stores of `next_` around a loop make the writes of one thread visible to the
/// others, whether or not the executor does so in a way that tools can see. So a worker reads
/// nothing of the loop before the first load or after its last claim.
bool Claims::next(std::uint32_t worker, TaskRange& range) {
  (void)next_.load(std::memory_order_acquire);
  const Tasks tasks = tasks_;
  if (tasks.workers == 1) {  // no other thread needs to know
    const bool first = range.end == 0;
    range = {0, tasks.count};
    return first && tasks.count > 0;
  }
  // Where a caller's executor miscounts, there is no such worker, and it claims nothing.
  const std::int64_t claim = worker < tasks.workers ? tasks.per_claim : 0;
  done_.fetch_add(range.end - range.begin, std::memory_order_relaxed);
  range.begin = next_.fetch_add(claim, std::memory_order_acq_rel);
  range.end = std::min(range.begin + claim, tasks.count);
  return range.begin < range.end;
}

void Claims::check_all_done(const Threads& threads) const {
  (void)next_.load(std::memory_order_acquire);
  const std::int64_t done = done_.load(std::memory_order_relaxed);
  if (done != tasks_.count)
    fail(HEED_STATUS_EXECUTOR_FAILED, "the executor \"%s\" ran %lld of %lld tasks", threads.name,
         lld(done), lld(tasks_.count));
}

}  // namespace heed
