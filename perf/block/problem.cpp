#include "perf/block/problem.hpp"

#include <utility>
#include <vector>

namespace heed::perf {

namespace {

/// All that a call needs, prepared weights among it.
struct Call {
  Call(const Workload& workload, const Context& context)
      : block(kept<oracle::Block>(workload.name, [&] { return block_of(workload); })),
        desc(block->desc()),
        args(block->args()),
        plan(made(heed_multihead_plan_create, heed_multihead_plan_destroy, context.get(),
                  static_cast<const heed_multihead_desc*>(&desc))),
        info(described(heed_multihead_plan_describe, plan.get(), HEED_MULTIHEAD_INFO_INIT)),
        workspace(info.workspace_bytes) {
    if (workload.raw) return;
    give(context, block->w_query, args.w_query, args.b_query, args.p_query);
    give(context, block->w_key, args.w_key, args.b_key, args.p_key);
    give(context, block->w_value, args.w_value, args.b_value, args.p_value);
    give(context, *block->w_out, args.w_out, args.b_out, args.p_out);
  }

  void give(const Context& context, const oracle::WeightMatrix& w, const void*& matrix,
            const void*& bias, const heed_weights*& prepared) {
    heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
    desc.arithmetic = block->real;
    desc.in = w.in();
    desc.out = w.out();
    desc.layout = w.layout();
    weights.push_back(made(heed_weights_create, heed_weights_destroy, context.get(), &desc,
                           static_cast<const void*>(matrix), static_cast<const void*>(bias)));
    prepared = weights.back().get();
    matrix = bias = nullptr;
  }

  std::shared_ptr<oracle::Block> block;
  heed_multihead_desc desc;
  heed_multihead_args args;
  BlockPlan plan;
  heed_multihead_info info;
  std::vector<Weights> weights;
  Workspace workspace;
};

}  // namespace

Block::Block(const std::string& workload, Context context)
    : workload_(parse_workload(workload)), context_(std::move(context)) {}

Runner Block::prepare() {
  const auto call = std::make_shared<Call>(workload_, context_);
  info_ = call->info;
  Runner run = [call] {
    check(heed_multihead_plan_run(call->plan.get(), &call->args, call->workspace.get(),
                                  call->workspace.bytes()));
  };
  if (!accuracy_) call->block->out.clear();
  run();  // always: a workspace so large costs its first run a page fault for every page
  if (!accuracy_) accuracy_ = check_accuracy(workload_, *call->block);
  demand(*accuracy_, workload_.name);
  return run;
}

oracle::Block block_of(const Workload& w) {
  oracle::BlockChoice choice = oracle::choice_of(w.desc.query.dtype);
  choice.width_query = choice.width_key = choice.width_out = w.width;
  choice.self = w.desc.query_length == w.desc.key_length;
  choice.bias_dtype = HEED_DTYPE_DEFAULT;
  for (oracle::MatrixChoice* const m :
       {&choice.w_query, &choice.w_key, &choice.w_value, &choice.w_out}) {
    m->bias = w.projection_biases;
    m->bias_dtype = HEED_DTYPE_DEFAULT;
  }
  oracle::Block block(problem_of(parse_workload(w.attention)), choice);
  oracle::Problem& inside = block.attention;
  for (Tensor* const unused : {&inside.query, &inside.key, &inside.value, &inside.out})
    *unused = rows_of(unused->dtype(), 0, 0);
  block.fill(11);
  return block;
}

}  // namespace heed::perf
