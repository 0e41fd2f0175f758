#include "perf/backward/problem.hpp"

namespace heed::perf {
namespace {

/// The function adds what does not depend on the score: gradients pass as they are.
void score_gradient(void* /*user*/, const heed_score_tile* /*tile*/, void* /*gradients*/) {}

BackwardPlan make_plan(const Context& context, const Workload& workload) {
  heed_attention_backward_desc desc = HEED_ATTENTION_BACKWARD_DESC_INIT;
  const heed_attention_desc& forward = workload.desc;
  desc.attention = &forward;
  desc.grad_out.dtype = forward.out.dtype;
  desc.grad_query.dtype = forward.query.dtype;
  desc.grad_key.dtype = forward.key.dtype;
  desc.grad_value.dtype = forward.value.dtype;
  return made(heed_attention_backward_plan_create, heed_attention_backward_plan_destroy,
              context.get(), &desc);
}

/// The forward run that a backward one needs.
std::string with_lse(const Workload& workload) {
  return workload.lse ? workload.name : workload.name + "_lse";
}

}  // namespace

oracle::ScoreModel score_derivative(const Workload& workload) {
  if (!workload.score_function) return {};
  return [](const auto&, const oracle::Place&, long double) {
    return oracle::Score<long double>{1, 0};
  };
}

GradientTensors::GradientTensors(const Tensors& forward) {
  const auto like = [](const Tensor& tensor) { return Tensor(tensor.type(), tensor.size()); };
  grad_out = like(forward.out);
  query = like(forward.query);
  key = like(forward.key);
  value = like(forward.value);
  bias = like(forward.bias);
  sinks = like(forward.sinks);
  fill_random(grad_out, 9);
  for (Tensor* const result : {&query, &key, &value, &bias, &sinks}) fill_with_nan(*result);
}

heed_attention_backward_args GradientTensors::args(const Workload& workload,
                                                   const heed_attention_args& forward) {
  heed_attention_backward_args args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  args.attention = &forward;
  args.grad_out = grad_out.data();
  args.grad_query = query.data();
  args.grad_key = key.data();
  args.grad_value = value.data();
  args.grad_bias = bias.data();
  args.grad_sinks = sinks.data();
  args.score_gradient = workload.score_function ? score_gradient : nullptr;
  return args;
}

Gradients::Gradients(const std::string& workload, const Context& context)
    : workload_(parse_workload(workload)),
      plan_(make_plan(context, workload_)),
      info_(
          described(heed_attention_backward_plan_describe, plan_.get(), HEED_ATTENTION_INFO_INIT)),
      forward_(with_lse(workload_), context) {}

double Gradients::flops() const {
  const auto features = static_cast<double>(workload_.desc.features);
  const auto both = features + static_cast<double>(workload_.desc.value_features);
  return forward_.flops() / (2 * both) * (4 * both + 2 * features);
}

Runner Gradients::prepare() {
  prepare_forward()();
  const std::shared_ptr<Tensors> tensors = tensors_of(forward_.workload());
  const auto gradients = kept<GradientTensors>(workload_.name, *tensors);
  const auto workspace = std::make_shared<Workspace>(info_.workspace_bytes);
  const auto forward = std::make_shared<heed_attention_args>(tensors->args());
  const Runner run = [plan = plan_, tensors, gradients, workspace, forward,
                      args = gradients->args(workload_, *forward)] {
    check(
        heed_attention_backward_plan_run(plan.get(), &args, workspace->data(), workspace->bytes()));
  };
  if (!accuracy_) {
    run();
    accuracy_ = check_gradients(forward_.workload(), *tensors, *gradients, multiplies_pairs());
  }
  demand(*accuracy_, workload_.name);
  return run;
}

std::string Gradients::tiles() const {
  return std::to_string(info_.tile_q) + "x" + std::to_string(info_.tile_kv);
}

std::string Gradients::label() const {
  return std::string(info_.isa) + " tiles " + tiles() + " " + info_.executor;
}

}  // namespace heed::perf
