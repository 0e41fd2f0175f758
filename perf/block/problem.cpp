#include "perf/block/problem.hpp"

#include <utility>

namespace heed::perf {

Block::Block(const std::string& workload, Context context)
    : workload_(parse_workload(workload)), context_(std::move(context)) {}

Runner Block::prepare() {
  const auto block =
      kept<oracle::Block>(workload_.name, [&] { return block_of(workload_, !workload_.raw); });
  const auto plan = planned(context_, block->desc());
  info_ = plan.info();
  using Owner = std::pair<std::shared_ptr<oracle::Block>, oracle::Block::Prepared>;
  const auto owner = std::make_shared<Owner>(block, block->prepare(*context_));
  Runner run = plan.runner({block->args(owner->second)}, owner);
  if (!accuracy_) block->out.clear();
  run();  // always: a workspace so large costs its first run a page fault for every page
  demand(accuracy_, workload_.name, [&] { return check_accuracy(workload_, *block); });
  return run;
}

oracle::Block block_of(const Workload& w, bool prepared) {
  const oracle::Problem attention = problem_of(parse_workload(w.attention));
  heed_multihead_desc desc = oracle::block_desc(w.desc.query.dtype, w.width);
  desc.attention = &attention.desc;
  desc.bias_dtype = HEED_DTYPE_DEFAULT;
  oracle::Block block(attention, desc, w.desc.query_length == w.desc.key_length);
  for (oracle::WeightMatrix* const m : block.matrices()) {
    if (w.projection_biases) m->add_bias(desc.bias_dtype, 0);
    m->prepared = prepared;
  }
  oracle::Problem& inside = block.attention;
  for (Tensor* const unused : {&inside.query, &inside.key, &inside.value, &inside.out})
    *unused = rows_of(unused->dtype(), 0, 0);
  block.fill(11);
  return block;
}

}  // namespace heed::perf
