#include "engine/dense/attention.hpp"

#include "engine/dense/strategy.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {

void run_attention(const heed_attention_plan& plan, const heed_attention_args& args,
                   void* workspace, std::size_t bytes) {
  validate(plan.problem, args);
  check_workspace(plan.bytes, workspace, bytes);
  compute_attention(plan, args, static_cast<std::byte*>(workspace));
}

void compute_attention(const heed_attention_plan& plan, const heed_attention_args& args,
                       std::byte* workspace) {
  plan.strategy->run(plan, args, workspace);
  recompute(plan, args, workspace);
}

}  // namespace heed
