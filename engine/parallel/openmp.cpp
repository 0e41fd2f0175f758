#include <omp.h>

#include "engine/parallel/parallel_for.hpp"
#include "engine/parallel/threads.hpp"

namespace heed {
namespace {

/// How many threads the runtime keeps for this thread's next region.
thread_local std::uint32_t kept = 1;

/// How many threads a region may ask for: threads that are kept and threads that can be started.
std::uint32_t limit_team(std::uint32_t wanted) {
  const int level = omp_get_active_level();
  if (level >= omp_get_max_active_levels()) return wanted;  // no thread is started here
  const std::uint32_t have = level == 0 ? kept : 1;
  return wanted <= have ? wanted : have + startable_threads(wanted - have);
}

class OpenMpExecutor final : public Executor {
 public:
  OpenMpExecutor(const heed_allocator& /*allocator*/, std::uint32_t /*threads*/) { watch_forks(); }
  void run(std::uint32_t workers, Body body, void* argument) const override {
    if (lost_its_threads()) return body(argument, 0);
    const bool outermost = omp_get_active_level() == 0;
    // The runtime may give fewer threads than asked (nested regions, limits).
#pragma omp parallel num_threads(static_cast <int>(limit_team(workers)))
    {
      const auto thread = static_cast<std::uint32_t>(omp_get_thread_num());
      if (thread == 0 && outermost) kept = static_cast<std::uint32_t>(omp_get_num_threads());
      body(argument, thread);
    }
  }
};

}  // namespace

const ExecutorKind kOpenMpExecutor = ExecutorKind::of<OpenMpExecutor>("openmp");

}  // namespace heed
