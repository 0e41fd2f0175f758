#include "engine/parallel/parallel_for.hpp"

#include <algorithm>

#include "engine/runtime/error.hpp"

namespace heed {

/// The stores and loads of these counters around a loop make what one thread has written visible to
/// the others, whether or not the executor does so in a way that tools can see.
bool Claims::next(std::uint32_t worker, TaskRange& range) {
  if (tasks_.workers == 1) {  // no other thread needs to know
    const bool first = range.end == 0;
    range = {0, tasks_.count};
    return first && tasks_.count > 0;
  }
  if (range.end > 0) done_.fetch_add(range.end - range.begin, std::memory_order_release);
  if (worker >= tasks_.workers) return false;  // a caller's executor miscounts
  range.begin = next_.fetch_add(tasks_.per_claim, std::memory_order_acquire);
  range.end = std::min(range.begin + tasks_.per_claim, tasks_.count);
  return range.begin < tasks_.count;
}

void Claims::check_all_done(const Threads& threads) const {
  const std::int64_t done = done_.load(std::memory_order_acquire);
  if (done != tasks_.count)
    fail(HEED_STATUS_EXECUTOR_FAILED, "the executor \"%s\" ran %lld of %lld tasks", threads.name,
         static_cast<long long>(done), static_cast<long long>(tasks_.count));
}

}  // namespace heed
