#include "engine/dense/attention.hpp"

#include "engine/dense/forward.hpp"
#include "engine/dense/view.hpp"
#include "engine/parallel/parallel_for.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {
namespace {

/// Computes the tasks [begin, end) of a walk in a thread's slab.
using Walk = void (*)(const heed_attention_plan& plan, const heed_attention_args& args,
                      std::int64_t begin, std::int64_t end, std::byte* slab, std::byte* results);

void walk(const heed_attention_plan& plan, const heed_attention_args& args, Walk function,
          const Tasks& tasks, std::byte* workspace) {
  std::byte* const results = plan.results_bytes > 0 ? workspace : nullptr;  // nullptr: not kept
  std::byte* const slabs = workspace + plan.results_bytes;
  parallel_for(plan.context->threads, tasks,
               [&](std::int64_t begin, std::int64_t end, std::uint32_t worker) {
                 function(plan, args, begin, end, slabs + worker * plan.slab.bytes, results);
               });
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
