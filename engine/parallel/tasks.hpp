// Tasks, claimed in order from one counter by the workers of an executor: which worker does which
// task is decided while they run, so that late threads cost nothing.
#pragma once

#include <cstdint>

#include "engine/runtime/context.hpp"

namespace heed {

/// Does the tasks [begin, end); of the calls at any time each has another `worker`.
using TaskRange = void (*)(void* argument, std::int64_t begin, std::int64_t end,
                           std::uint32_t worker);

/// A claim of tasks worth less than this is dearer to hand out than to keep (about 20 us).
inline constexpr double kFlopsPerClaim = 2e6;

struct Tasks {
  std::int64_t count;
  std::int64_t per_claim;  ///< so that a claim is worth its atomic increment
  std::uint32_t workers;
};

/// Returns when every task has been done: on this thread if there is one worker, else on the
/// context's executor. Throws if that left tasks undone. `function` must not throw.
void run_tasks(const heed_context& context, const Tasks& tasks, TaskRange function, void* argument);

}  // namespace heed
