// Tasks, claimed in order from one counter by the workers of an executor: which worker does which
// task is decided while they run, so that late threads cost nothing.
#pragma once

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

/// A function of parallel_for() whose type is forgotten.
using TaskFunction = void (*)(const void* function, std::int64_t begin, std::int64_t end,
                              std::uint32_t worker);
void run_tasks(const Threads& threads, const Tasks& tasks, TaskFunction call, const void* function);

/// Calls function(begin, end, worker) until all tasks are done, each once; of the calls at any time
/// each has another `worker`. On this thread if there is one worker, else on the executor. Throws
/// if that left tasks undone. `function` must not throw.
template <class Function>
void parallel_for(const Threads& threads, const Tasks& tasks, const Function& function) {
  const auto call = [](const void* of, std::int64_t begin, std::int64_t end, std::uint32_t worker) {
    (*static_cast<const Function*>(of))(begin, end, worker);
  };
  run_tasks(threads, tasks, call, &function);
}

}  // namespace heed
