// Loops over many small things, cut into one range per task.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "engine/parallel/parallel_for.hpp"

namespace heed {

/// The numbers [0, count) as ranges of nearly even size.
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
  parallel_for(threads, {ranges.ranges, 1, workers},
               [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
                 for (std::int64_t r = begin; r < end; ++r)
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
