#include "perf/backward/problem.hpp"

namespace heed::perf {
namespace {

MadePlan<heed_attention_backward_desc> make_plan(const Context& context, const Workload& workload) {
  heed_attention_backward_desc desc = HEED_ATTENTION_BACKWARD_DESC_INIT;
  const heed_attention_desc& forward = workload.desc;
  desc.attention = &forward;
  desc.grad_out.dtype = forward.out.dtype;
  desc.grad_query.dtype = forward.query.dtype;
  desc.grad_key.dtype = forward.key.dtype;
  desc.grad_value.dtype = forward.value.dtype;
  return planned(context, desc);
}

/// The forward run that a backward one needs.
std::string with_lse(const Workload& workload) {
  return workload.lse ? workload.name : workload.name + "_lse";
}

}  // namespace

Gradients::Gradients(const std::string& workload, const Context& context)
    : workload_(parse_workload(workload)),
      plan_(make_plan(context, workload_)),
      forward_(with_lse(workload_), context) {}

double Gradients::flops() const {
  const auto features = static_cast<double>(workload_.desc.features);
  const auto both = features + static_cast<double>(workload_.desc.value_features);
  return forward_.flops() / (2 * both) * (4 * both + 2 * features);
}

std::shared_ptr<oracle::BackwardProblem> Gradients::tensors() const {
  return kept<oracle::BackwardProblem>(workload_.name, [&] {
    const heed_attention_desc& d = workload_.desc;
    oracle::BackwardProblem p(problem_of(forward_.workload()), 9, {d.out.dtype});
    p.want(oracle::kGradQuery, {d.query.dtype});
    p.want(oracle::kGradKey, {d.key.dtype});
    p.want(oracle::kGradValue, {d.value.dtype});
    for (const oracle::GradientOf of : {oracle::kGradBias, oracle::kGradSinks})
      if (p.can_want(of)) p.want(of);
    return p;
  });
}

Runner Gradients::prepare_forward() {
  const std::shared_ptr<oracle::BackwardProblem> problem = tensors();
  return forward_.prepare(problem, problem->forward, {problem->forward.args()});
}

Runner Gradients::prepare() {
  prepare_forward()();
  const std::shared_ptr<oracle::BackwardProblem> problem = tensors();
  Runner run = plan_.runner({problem->args()}, problem);
  demand(accuracy_, workload_.name, [&] {
    run();
    return check_gradients(*problem, multiplies_pairs());
  });
  return run;
}

}  // namespace heed::perf
