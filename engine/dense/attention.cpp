
#include "engine/dense/strategy.hpp"
#include "engine/runtime/workspace.hpp"

namespace heed {

const Strategy kMixed = {"mixed", [](const heed_attention_plan& plan,
                                     const heed_attention_args& args, std::byte* workspace) {
                           kPrefill.run(plan, args, workspace);
                           kDecode.run(plan, args, workspace);
                         }};

void run_plan(const heed_attention_plan& plan, const heed_attention_args& args, void* workspace,
              std::size_t bytes) {
  validate(plan.problem, args);
  check_workspace(plan.bytes, workspace, bytes);
  auto* const space = static_cast<std::byte*>(workspace);
  plan.strategy->run(plan, args, space);
  recompute(plan, args, space);
}

}  // namespace heed
