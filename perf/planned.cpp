#include "perf/planned.hpp"

#include <utility>

#include "perf/sequences.hpp"

namespace heed::perf {
Runner::Runner(Plan plan, std::size_t workspace_bytes, std::shared_ptr<Tensors> tensors)
    : plan_(std::move(plan)),
      tensors_(std::move(tensors)),
      args_(tensors_->args()),
      workspace_(workspace_bytes) {}

Planned::Planned(const std::string& workload, const Context& context)
    : workload_(parse_workload(workload)),
      flops_(useful_flops(workload_)),
      plan_(make_plan(context, workload_.desc)),
      info_(describe(plan_)) {}

Runner Planned::prepare() {
  const std::shared_ptr<Tensors> tensors = tensors_of(workload_);
  Runner runner(plan_, info_.workspace_bytes, tensors);
  if (!checked_) {
    runner();
    accuracy_ = check_accuracy(workload_, *tensors);
    checked_ = true;
  }
  demand(accuracy_, workload_.name);
  return runner;
}

Row Planned::row(const std::string& kind, unsigned threads) const {
  const std::string isa = info_.isa;
  return {kind + "/" + workload_.name + "/threads:" + std::to_string(threads) + "/isa:" + isa,
          workload_.name, isa, threads, tiles()};
}

std::string Planned::tiles() const {
  return std::to_string(info_.tile_q) + "x" + std::to_string(info_.tile_kv);
}

std::string Planned::label() const {
  return std::string(info_.isa) + " tiles " + tiles() + " " + info_.executor;
}

}  // namespace heed::perf
