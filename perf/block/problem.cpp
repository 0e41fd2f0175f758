#include "perf/block/problem.hpp"

#include <utility>

#include "perf/block/accuracy.hpp"

namespace heed::perf {
namespace {

BlockPlan plan_of(const Context& context, const Workload& workload) {
  heed_attention_desc attention = parse_workload(workload.attention).desc;
  for (heed_layout* const layout :
       {&attention.query, &attention.key, &attention.value, &attention.out})
    *layout = HEED_LAYOUT_INIT;
  heed_multihead_desc desc = HEED_MULTIHEAD_DESC_INIT;
  desc.attention = &attention;
  desc.width_query = workload.width;
  const std::uint32_t type = workload.desc.query.dtype;
  for (heed_layout* const layout : {&desc.input_query, &desc.input_key, &desc.out})
    layout->dtype = type;
  for (heed_matrix_layout* const layout : {&desc.w_query, &desc.w_key, &desc.w_value, &desc.w_out})
    layout->dtype = type;
  return make_plan(context, desc);
}

Weights prepared(const Context& context, Projection& projection) {
  heed_weights_desc desc = HEED_WEIGHTS_DESC_INIT;
  desc.arithmetic = projection.bias.type();
  desc.in = projection.in;
  desc.out = projection.out;
  desc.layout.dtype = projection.matrix.type();
  return make_weights(context, desc, projection.matrix.data(), projection.bias.data());
}

}  // namespace

BlockRunner::BlockRunner(const Context& context, const Workload& workload, BlockPlan plan,
                         std::shared_ptr<BlockTensors> tensors)
    : plan_(std::move(plan)),
      tensors_(std::move(tensors)),
      attention_(tensors_->attention->args()),
      args_(HEED_MULTIHEAD_ARGS_INIT),
      workspace_(describe(plan_).workspace_bytes) {
  attention_.query = attention_.key = attention_.value = nullptr;
  attention_.out = nullptr;
  args_.input_query = tensors_->input_query.data();
  args_.input_key = tensors_->input_key.data();
  args_.out = tensors_->out.data();
  BlockTensors& t = *tensors_;
  give(context, workload.raw, t.query, args_.w_query, args_.b_query, args_.p_query);
  give(context, workload.raw, t.key, args_.w_key, args_.b_key, args_.p_key);
  give(context, workload.raw, t.value, args_.w_value, args_.b_value, args_.p_value);
  give(context, workload.raw, t.out_of_heads, args_.w_out, args_.b_out, args_.p_out);
}

void BlockRunner::give(const Context& context, bool raw, Projection& projection,
                       const void*& matrix, const void*& bias, const heed_weights*& weights) {
  if (raw) {
    matrix = projection.matrix.data();
    bias = projection.bias.data();
  } else {
    weights_.push_back(prepared(context, projection));
    weights = weights_.back().get();
  }
}

Block::Block(const std::string& workload, Context context)
    : workload_(parse_workload(workload)),
      context_(std::move(context)),
      plan_(plan_of(context_, workload_)),
      info_(describe(plan_)) {}

BlockRunner Block::prepare() {
  const std::shared_ptr<BlockTensors> tensors = block_tensors_of(workload_);
  BlockRunner runner(context_, workload_, plan_, tensors);
  if (!checked_) fill_with_nan(tensors->out);
  runner();  // always: a workspace so large costs its first run a page fault for every page
  if (!checked_) {
    accuracy_ = check_block_accuracy(workload_, *tensors);
    checked_ = true;
  }
  demand(accuracy_, workload_.name);
  return runner;
}

}  // namespace heed::perf
