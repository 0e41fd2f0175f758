#include "engine/dense/attention.hpp"

#include <algorithm>
#include <atomic>

#include "engine/dense/forward.hpp"
#include "engine/dense/view.hpp"
#include "engine/runtime/error.hpp"

namespace heed {
namespace {

void validate_workspace(const heed_attention_plan& plan, const void* workspace, std::size_t bytes) {
  const std::size_t needed = workspace_bytes(plan);
  if (bytes < needed)
    fail(HEED_STATUS_INVALID_WORKSPACE, "workspace_bytes is %zu; this plan needs %zu", bytes,
         needed);
  if (needed == 0) return;
  if (workspace == nullptr)
    fail(HEED_STATUS_INVALID_WORKSPACE, "workspace is NULL; this plan needs %zu bytes", needed);
  if (reinterpret_cast<std::uintptr_t>(workspace) % HEED_WORKSPACE_ALIGNMENT != 0)
    fail(HEED_STATUS_INVALID_WORKSPACE, "workspace is %p; it must be a multiple of %d", workspace,
         HEED_WORKSPACE_ALIGNMENT);
}

/// Computes the tasks [begin, end) of a walk in a thread's slab.
using Walk = void (*)(const heed_attention_plan& plan, const heed_attention_args& args,
                      std::int64_t begin, std::int64_t end, std::byte* slab, std::byte* results);

/// What the workers of one walk share. Tasks are claimed from a counter: whoever is free takes
/// the next, and nothing depends on who that is.
///
/// `next` is stored with release before the workers start and first read with acquire, and
/// `finished` the other way round: what a run reads and writes is handed over here, not by
/// whatever synchronisation an executor happens to have.
struct Run {
  const heed_attention_plan& plan;
  const heed_attention_args& args;
  Walk walk;
  std::int64_t tasks;
  std::int64_t tasks_per_claim;
  std::byte* results;  ///< nullptr: not kept
  std::byte* slabs;
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> finished{0};
};

void work(void* argument, std::uint32_t worker) {
  Run& run = *static_cast<Run*>(argument);
  (void)run.next.load(std::memory_order_acquire);
  const heed_attention_plan& plan = run.plan;
  std::int64_t finished = 0;
  if (worker < plan.workers) {  // else a caller's executor miscounts: there is no slab for it
    std::byte* const slab = run.slabs + worker * plan.slab.bytes;
    const std::int64_t claim = run.tasks_per_claim;
    std::int64_t begin = run.next.fetch_add(claim, std::memory_order_relaxed);
    while (begin < run.tasks) {
      const std::int64_t end = std::min(begin + claim, run.tasks);
      run.walk(plan, run.args, begin, end, slab, run.results);
      finished += end - begin;
      begin = run.next.fetch_add(claim, std::memory_order_relaxed);
    }
  }
  run.finished.fetch_add(finished, std::memory_order_release);
}

void walk(const heed_attention_plan& plan, const heed_attention_args& args, Walk function,
          std::int64_t tasks, std::int64_t tasks_per_claim, std::byte* workspace) {
  if (tasks == 0) return;
  Run run{plan,
          args,
          function,
          tasks,
          tasks_per_claim,
          plan.results_bytes > 0 ? workspace : nullptr,
          workspace + plan.results_bytes};
  run.next.store(0, std::memory_order_release);
  if (plan.workers == 1) {
    work(&run, 0);
  } else {
    plan.context->executor->run(plan.workers, work, &run);
  }
  const std::int64_t finished = run.finished.load(std::memory_order_acquire);
  if (finished != tasks)
    fail(HEED_STATUS_EXECUTOR_FAILED, "the executor \"%s\" ran %lld of %lld tasks",
         plan.context->executor_name, static_cast<long long>(finished),
         static_cast<long long>(tasks));
}

}  // namespace

void run_attention(const heed_attention_plan& plan, const heed_attention_args& args,
                   void* workspace, std::size_t bytes) {
  validate(plan.problem, args);
  validate_workspace(plan, workspace, bytes);
  auto* const begin = static_cast<std::byte*>(workspace);
  walk(plan, args, attend_blocks, plan.tasks, plan.tasks_per_claim, begin);
  walk(plan, args, view_chunks, plan.views, 1, begin);
}

}  // namespace heed
