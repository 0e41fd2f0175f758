#include "engine/parallel/parallel_for.hpp"

#include <algorithm>

#include "engine/runtime/error.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

Tasks share_evenly(const Threads& threads, std::int64_t tasks, double numbers) {
  constexpr double kNumbersPerWorker = 1 << 16;
  const auto most = std::min<std::int64_t>(threads.count, std::max<std::int64_t>(tasks, 1));
  const auto workers = static_cast<std::uint32_t>(
      std::clamp(numbers / kNumbersPerWorker, 1.0, static_cast<double>(most)));
  return {tasks, ceil_div(tasks, workers), workers};
}

/// The loads and stores of `next_` around a loop make what one thread has written visible to the
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
