// Loops over many small things, cut into one range per task.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "engine/parallel/tasks.hpp"

namespace heed {

/// The numbers [0, count) as ranges of nearly even size.
struct Ranges {
  std::int64_t count;
  std::int64_t ranges;

  /// As many ranges as are worth their while and keep the context's threads busy.
  static Ranges of(const heed_context& context, std::int64_t count) {
    constexpr std::int64_t kWorthwhile = 1 << 14;
    constexpr std::int64_t kPerThread = 4;
    const std::int64_t most = context.threads == 1 ? 1 : context.threads * kPerThread;
    return {count, std::clamp(count / kWorthwhile, std::int64_t{1}, most)};
  }
  std::int64_t begin(std::int64_t range) const {
    return count / ranges * range + std::min(range, count % ranges);
  }
};

/// Calls function(range, begin, end) for every range, on the context's threads. It must not throw.
template <class Function>
void each_range(const heed_context& context, const Ranges& ranges, Function&& function) {
  struct Job {
    const Ranges& ranges;
    Function& function;
  };
  Job job{ranges, function};
  const auto workers =
      static_cast<std::uint32_t>(std::min<std::int64_t>(ranges.ranges, context.threads));
  run_tasks(
      context, {ranges.ranges, 1, workers},
      [](void* argument, std::int64_t begin, std::int64_t end, std::uint32_t) {
        const Job& j = *static_cast<const Job*>(argument);
        for (std::int64_t r = begin; r < end; ++r)
          j.function(r, j.ranges.begin(r), j.ranges.begin(r + 1));
      },
      &job);
}

/// The lowest i in [0, count) of which test(i) is true, else count.
template <class Test>
std::int64_t first_where(const heed_context& context, std::int64_t count, Test&& test) {
  std::atomic<std::int64_t> first{count};
  each_range(context, Ranges::of(context, count),
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
