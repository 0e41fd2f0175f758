#include "perf/planned.hpp"

#include <utility>

namespace heed::perf {

Planned::Planned(const std::string& workload, const Context& context)
    : workload_(parse_workload(workload)),
      flops_(useful_flops(workload_)),
      plan_(made(heed_attention_plan_create, heed_attention_plan_destroy, context.get(),
                 &workload_.desc)),
      info_(described(heed_attention_plan_describe, plan_.get(), HEED_ATTENTION_INFO_INIT)) {}

Runner Planned::prepare() {
  const std::shared_ptr<Layers> tensors = tensors_of(workload_);
  std::vector<heed_attention_args> layers;
  for (std::size_t i = 0; i < tensors->size(); ++i) layers.push_back(args_of(*tensors, i));
  return prepare(tensors, tensors->front(), std::move(layers));
}

Runner Planned::prepare(const std::shared_ptr<void>& owner, oracle::Problem& problem,
                        std::vector<heed_attention_args> layers) {
  const auto workspace = std::make_shared<Workspace>(info_.workspace_bytes);
  const auto run = [plan = plan_, owner, workspace](const heed_attention_args& args) {
    check(heed_attention_plan_run(plan.get(), &args, workspace->get(), workspace->bytes()));
  };
  if (!accuracy_) {
    run(layers[0]);
    accuracy_ = check_accuracy(problem, info_.precision);
  }
  demand(*accuracy_, workload_.name);
  return [run, layers = std::move(layers)] {
    for (const heed_attention_args& args : layers) run(args);
  };
}

}  // namespace heed::perf
