#include "engine/dense/attention.hpp"

#include "engine/dense/forward.hpp"
#include "engine/dense/view.hpp"
#include "engine/parallel/tasks.hpp"
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

void walk(const heed_attention_plan& plan, const heed_attention_args& args, Walk function,
          const Tasks& tasks, std::byte* workspace) {
  struct Run {
    const heed_attention_plan& plan;
    const heed_attention_args& args;
    Walk walk;
    std::byte* results;  // nullptr: not kept
    std::byte* slabs;
  };
  Run run{plan, args, function, plan.results_bytes > 0 ? workspace : nullptr,
          workspace + plan.results_bytes};
  run_tasks(
      *plan.context, tasks,
      [](void* argument, std::int64_t begin, std::int64_t end, std::uint32_t worker) {
        const Run& r = *static_cast<const Run*>(argument);
        r.walk(r.plan, r.args, begin, end, r.slabs + worker * r.plan.slab.bytes, r.results);
      },
      &run);
}

}  // namespace

void run_attention(const heed_attention_plan& plan, const heed_attention_args& args,
                   void* workspace, std::size_t bytes) {
  validate(plan.problem, args);
  validate_workspace(plan, workspace, bytes);
  auto* const begin = static_cast<std::byte*>(workspace);
  walk(plan, args, attend_blocks, {plan.tasks, plan.tasks_per_claim, plan.workers}, begin);
  walk(plan, args, view_chunks, {plan.views, 1, plan.workers}, begin);
}

}  // namespace heed
