#include "perf/block/backward.hpp"

#include <cmath>
#include <utility>

namespace heed::perf {

BlockGradientTensors::BlockGradientTensors(const BlockTensors& forward)
    : grad_out(forward.out.type(), forward.out.size()),
      input_query(forward.input_query.type(), forward.input_query.size()),
      input_key(forward.input_key.type(), forward.input_key.size()),
      query(forward.query, forward.query.matrix.type()),
      key(forward.key, forward.key.matrix.type()),
      value(forward.value, forward.value.matrix.type()),
      out_of_heads(forward.out_of_heads, forward.out_of_heads.matrix.type()) {
  fill_random(grad_out, 9);
  for (Tensor* const result : {&input_query, &input_key}) fill_with_nan(*result);
  for (Projection* const result : {&query, &key, &value, &out_of_heads}) {
    fill_with_nan(result->matrix);
    fill_with_nan(result->bias);
  }
}

namespace {

/// Arguments of a forward run with matrices as they are. `attention` is to live as long.
heed_multihead_args forward_args(BlockTensors& tensors, heed_attention_args& attention) {
  attention = tensors.attention->args();
  attention.query = attention.key = attention.value = nullptr;
  attention.out = attention.lse = nullptr;
  heed_multihead_args args = HEED_MULTIHEAD_ARGS_INIT;
  args.attention = &attention;
  args.input_query = tensors.input_query.data();
  args.input_key = tensors.input_key.data();
  args.w_query = tensors.query.matrix.data(), args.b_query = tensors.query.bias.data();
  args.w_key = tensors.key.matrix.data(), args.b_key = tensors.key.bias.data();
  args.w_value = tensors.value.matrix.data(), args.b_value = tensors.value.bias.data();
  args.w_out = tensors.out_of_heads.matrix.data(), args.b_out = tensors.out_of_heads.bias.data();
  args.out = tensors.out.data();
  return args;
}

/// Calls use(desc) with that of a block whose runs keep what gradients need.
template <class Use>
auto with_desc(const Workload& workload, Use&& use) {
  const heed_attention_desc attention = inner_desc(workload);
  heed_multihead_desc desc = block_desc(workload, attention);
  desc.keep = 1;
  return use(desc);
}

BlockPlan plan_that_keeps(const Context& context, const Workload& workload) {
  return with_desc(workload, [&](const heed_multihead_desc& desc) {
    return made(heed_multihead_plan_create, heed_multihead_plan_destroy, context.get(), &desc);
  });
}

BlockBackwardPlan backward_plan(const Context& context, const Workload& workload) {
  return with_desc(workload, [&](const heed_multihead_desc& block) {
    heed_multihead_backward_desc desc = HEED_MULTIHEAD_BACKWARD_DESC_INIT;
    desc.block = &block;
    const std::uint32_t type = workload.desc.query.dtype;
    for (heed_layout* const layout : {&desc.grad_out, &desc.grad_input_query, &desc.grad_input_key})
      layout->dtype = type;
    for (heed_matrix_layout* const layout :
         {&desc.grad_w_query, &desc.grad_w_key, &desc.grad_w_value, &desc.grad_w_out})
      layout->dtype = type;
    desc.grad_b_dtype = type;
    return made(heed_multihead_backward_plan_create, heed_multihead_backward_plan_destroy,
                context.get(), &desc);
  });
}

}  // namespace

/// All that both runs need.
struct BlockGradients::Call {
  Call(std::shared_ptr<BlockTensors> forward, std::shared_ptr<BlockGradientTensors> backward,
       const heed_multihead_info& forward_info, const heed_multihead_info& info)
      : tensors(std::move(forward)),
        gradients(std::move(backward)),
        kept(forward_info.kept_bytes),
        forward_workspace(forward_info.workspace_bytes),
        workspace(info.workspace_bytes) {
    block = forward_args(*tensors, attention);
    block.kept = kept.data();
    block.kept_bytes = kept.bytes();
    BlockGradientTensors& g = *gradients;
    args.block = &block;
    args.grad_out = g.grad_out.data();
    args.grad_input_query = g.input_query.data();
    args.grad_input_key = g.input_key.data();
    args.grad_w_query = g.query.matrix.data(), args.grad_b_query = g.query.bias.data();
    args.grad_w_key = g.key.matrix.data(), args.grad_b_key = g.key.bias.data();
    args.grad_w_value = g.value.matrix.data(), args.grad_b_value = g.value.bias.data();
    args.grad_w_out = g.out_of_heads.matrix.data(), args.grad_b_out = g.out_of_heads.bias.data();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  std::shared_ptr<BlockTensors> tensors;
  std::shared_ptr<BlockGradientTensors> gradients;
  heed_attention_args attention = HEED_ATTENTION_ARGS_INIT;
  heed_multihead_args block = HEED_MULTIHEAD_ARGS_INIT;
  heed_multihead_backward_args args = HEED_MULTIHEAD_BACKWARD_ARGS_INIT;
  Workspace kept, forward_workspace, workspace;
};

BlockGradients::BlockGradients(const std::string& workload, Context context)
    : workload_(parse_workload(workload)),
      context_(std::move(context)),
      forward_(plan_that_keeps(context_, workload_)),
      forward_info_(
          described(heed_multihead_plan_describe, forward_.get(), HEED_MULTIHEAD_INFO_INIT)),
      plan_(backward_plan(context_, workload_)),
      info_(described(heed_multihead_backward_plan_describe, plan_.get(),
                      HEED_MULTIHEAD_INFO_INIT)) {}

std::shared_ptr<BlockGradients::Call> BlockGradients::call() {
  if (call_) return call_;
  const auto tensors = kept<BlockTensors>(workload_.name, workload_);
  const auto gradients = kept<BlockGradientTensors>(workload_.name, *tensors);
  call_ = std::make_shared<Call>(tensors, gradients, forward_info_, info_);
  return call_;
}

Runner BlockGradients::prepare_forward() {
  return [plan = forward_, call = call()] {
    check(heed_multihead_plan_run(plan.get(), &call->block, call->forward_workspace.data(),
                                  call->forward_workspace.bytes()));
  };
}

Runner BlockGradients::prepare() {
  prepare_forward()();
  Runner run = [plan = plan_, call = call()] {
    check(heed_multihead_backward_plan_run(plan.get(), &call->args, call->workspace.data(),
                                           call->workspace.bytes()));
  };
  run();
  if (!accuracy_) accuracy_ = check_slope(workload_, context_, *call_->tensors, *call_->gradients);
  demand(*accuracy_, workload_.name);
  return run;
}

namespace {

/// The same block in float64, for sums that rounding does not hide.
Workload in_float64(Workload w) {
  for (heed_layout* const layout : {&w.desc.query, &w.desc.key, &w.desc.value, &w.desc.out})
    layout->dtype = HEED_DTYPE_F64;
  w.name += " in float64";
  w.attention = parse_workload(w.attention).float32 + "_f64";
  return w;
}

/// A tensor of float64, the one that it comes from and the gradient of that.
struct Moved {
  Tensor* tensor;
  const Tensor* from;
  const Tensor* gradient;
  double deviation;
};

/// tensor = from + step * direction.
void move(const std::vector<Moved>& all, double step) {
  unsigned seed = 100;
  for (const Moved& one : all) {
    Tensor direction(HEED_DTYPE_F64, one.from->size());
    fill_random(direction, seed++, one.deviation);
    for (std::int64_t i = 0; i < direction.size(); ++i)
      one.tensor->set(i, (*one.from)[i] + step * direction[i]);
  }
}

}  // namespace

// A gradient's element is a sum of n products, of numbers that are sums of n products themselves:
// it is off by walk(n) = 8 sqrt(n) u of what gradients are like (accuracy.cpp says why), twice in a
// row. n is the longest of the sums. Such errors meet the numbers of the direction as independent
// ones do: their inner product is off by the root of the sum of the squares of its terms, times
// that.
Accuracy check_slope(const Workload& workload, const Context& context, BlockTensors& tensors,
                     const BlockGradientTensors& gradients) {
  constexpr double kStep = 1e-4;  // off by about its square
  const Workload wide = in_float64(workload);
  BlockTensors numbers(wide);
  const auto matrices = [](double in) { return 1 / std::sqrt(in); };
  std::vector<Moved> all = {{&numbers.input_query, &tensors.input_query, &gradients.input_query, 1},
                            {&numbers.input_key, &tensors.input_key, &gradients.input_key, 1}};
  const auto add = [&](Projection& to, const Projection& from, const Projection& of) {
    all.push_back({&to.matrix, &from.matrix, &of.matrix, matrices(static_cast<double>(from.in))});
    all.push_back({&to.bias, &from.bias, &of.bias, 1});
  };
  add(numbers.query, tensors.query, gradients.query);
  add(numbers.key, tensors.key, gradients.key);
  add(numbers.value, tensors.value, gradients.value);
  add(numbers.out_of_heads, tensors.out_of_heads, gradients.out_of_heads);

  const heed_attention_desc attention = inner_desc(wide);
  const heed_multihead_desc desc = block_desc(wide, attention);
  const BlockPlan plan =
      made(heed_multihead_plan_create, heed_multihead_plan_destroy, context.get(), &desc);
  Workspace workspace(described(heed_multihead_plan_describe, plan.get(), HEED_MULTIHEAD_INFO_INIT)
                          .workspace_bytes);
  const auto loss = [&](double step) {
    move(all, step);
    heed_attention_args inner = HEED_ATTENTION_ARGS_INIT;
    const heed_multihead_args args = forward_args(numbers, inner);
    check(heed_multihead_plan_run(plan.get(), &args, workspace.data(), workspace.bytes()));
    double sum = 0;
    for (std::int64_t i = 0; i < numbers.out.size(); ++i)
      sum += gradients.grad_out[i] * numbers.out[i];
    return sum;
  };
  const double slope = (loss(kStep) - loss(-kStep)) / (2 * kStep);

  double said = 0;
  double squares = 0;
  unsigned seed = 100;
  for (const Moved& one : all) {
    Tensor direction(HEED_DTYPE_F64, one.from->size());
    fill_random(direction, seed++, one.deviation);
    for (std::int64_t i = 0; i < direction.size(); ++i) {
      const double term = (*one.gradient)[i] * direction[i];
      said += term;
      squares += term * term;
    }
  }
  const heed_attention_desc& d = workload.desc;
  const double longest =
      static_cast<double>(d.batch * d.query_length + workload.width + d.key_length);
  const double unit = oracle::format_of(workload.desc.query.dtype).unit;
  const double bound = 2 * 8 * std::sqrt(longest) * unit * std::sqrt(squares);
  Accuracy accuracy;
  accuracy.compare(said, {slope, bound});
  return accuracy;
}

}  // namespace heed::perf
