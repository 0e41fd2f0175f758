#include "engine/dense/attention.hpp"

#include "engine/dense/forward.hpp"
#include "engine/dense/view.hpp"
#include "engine/parallel/tasks.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

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
  check_workspace(plan.bytes, workspace, bytes);
  compute_attention(plan, args, static_cast<std::byte*>(workspace));
}

void compute_attention(const heed_attention_plan& plan, const heed_attention_args& args,
                       std::byte* workspace) {
  walk(plan, args, attend_blocks, {plan.tasks, plan.tasks_per_claim, plan.workers}, workspace);
  walk(plan, args, view_chunks, {plan.views, 1, plan.workers}, workspace);
}

}  // namespace heed
