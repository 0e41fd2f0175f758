#include "perf/planned.hpp"

#include <utility>

namespace heed::perf {

Planned::Planned(const std::string& workload, const Context& context)
    : workload_(parse_workload(workload)),
      flops_(useful_flops(workload_)),
      plan_(planned(context, workload_.desc)) {}

Runner Planned::prepare() {
  const std::shared_ptr<Layers> tensors = tensors_of(workload_);
  std::vector<heed_attention_args> layers;
  for (std::size_t i = 0; i < tensors->size(); ++i) layers.push_back(args_of(*tensors, i));
  return prepare(tensors, tensors->front(), std::move(layers));
}

Runner Planned::prepare(const std::shared_ptr<void>& owner, oracle::Problem& problem,
                        std::vector<heed_attention_args> layers) {
  demand(accuracy_, workload_.name, [&] {
    plan_.runner({layers[0]}, owner)();
    return check_accuracy(problem, info().precision);
  });
  return plan_.runner(std::move(layers), owner);
}

}  // namespace heed::perf
