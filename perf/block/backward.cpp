#include <cmath>
#include <utility>

#include "perf/block/problem.hpp"
#include "tests/problem/block.hpp"

namespace heed::perf {
namespace {

using oracle::BlockGradientOf;

/// Those of inputs, matrices and, where there are any, biases.
std::vector<BlockGradientOf> gradients_of(const Workload& w) {
  std::vector<BlockGradientOf> all = {oracle::kBlockInputQuery, oracle::kBlockWQuery,
                                      oracle::kBlockWKey, oracle::kBlockWValue, oracle::kBlockWOut};
  if (w.desc.query_length != w.desc.key_length) all.push_back(oracle::kBlockInputKey);
  if (w.projection_biases)
    all.insert(all.end(), {oracle::kBlockBQuery, oracle::kBlockBKey, oracle::kBlockBValue,
                           oracle::kBlockBOut});
  return all;
}

oracle::BlockBackward problem_with_gradients(const Workload& w) {
  oracle::Block block = block_of(w, false);
  block.attention.lse.reset();
  oracle::BlockBackward problem(std::move(block), 9, {w.desc.out.dtype});
  for (const BlockGradientOf of : gradients_of(w)) problem.want(of, {w.desc.query.dtype});
  return problem;
}

heed_multihead_desc keeping(oracle::Block& block) {
  heed_multihead_desc desc = block.desc();
  desc.keep = 1;
  return desc;
}

}  // namespace

/// All that both runs need.
struct BlockGradients::Call {
  Call(const Workload& workload, const Context& context)
      : problem(kept<oracle::BlockBackward>(workload.name,
                                            [&] { return problem_with_gradients(workload); })),
        desc(keeping(problem->block)),
        forward(planned(context, desc)),
        plan(planned(context, problem->desc(desc))),
        keeps(forward.info().kept_bytes),
        block(problem->block.args()) {
    block.kept = keeps.get();
    block.kept_bytes = keeps.bytes();
    run_forward = forward.runner({block}, problem);
    run = plan.runner({problem->args(block)}, problem);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  std::shared_ptr<oracle::BlockBackward> problem;
  heed_multihead_desc desc;
  MadePlan<heed_multihead_desc> forward;
  MadePlan<heed_multihead_backward_desc> plan;
  Workspace keeps;
  heed_multihead_args block;
  Runner run_forward, run;
};

BlockGradients::BlockGradients(const std::string& workload, Context context)
    : workload_(parse_workload(workload)), context_(std::move(context)) {}

namespace {

/// The same block in float64, for sums that rounding does not hide.
Workload in_float64(Workload w) {
  for (heed_layout* const layout : {&w.desc.query, &w.desc.key, &w.desc.value, &w.desc.out})
    layout->dtype = HEED_DTYPE_F64;
  w.name += " in float64";
  w.attention = parse_workload(w.attention).float32 + "_f64";
  return w;
}

/// What a gradient is of.
Tensor& differentiated(oracle::Block& block, BlockGradientOf of) {
  if (of == oracle::kBlockInputQuery) return block.input_query;
  if (of == oracle::kBlockInputKey) return *block.input_key;
  oracle::WeightMatrix* const matrices[] = {&block.w_query, &block.w_key, &block.w_value,
                                            &*block.w_out};
  if (of >= oracle::kBlockBQuery) return *matrices[of - oracle::kBlockBQuery]->bias;
  return matrices[of - oracle::kBlockWQuery]->tensor;
}

/// Calls visit(gradient, place, number) with all numbers of a random direction, each of about the
/// size of what it changes.
template <class Visit>
void follow_direction(const Workload& workload, oracle::BlockBackward& problem, Visit&& visit) {
  oracle::Random random(100);
  for (const BlockGradientOf of : gradients_of(workload)) {
    const oracle::Axes& shape = problem.gradients[of]->shape();
    const bool matrix = of >= oracle::kBlockWQuery && of <= oracle::kBlockWOut;
    const double deviation = matrix ? 1 / std::sqrt(static_cast<double>(shape[2])) : 1;
    problem.gradients[of]->each(
        [&](const oracle::Axes& at) { visit(of, at, deviation * random.normal<double>()); });
  }
}

// A gradient's element is a sum of n products, of numbers that are sums of n products themselves:
// it is off by walk(n) = 8 sqrt(n) u of what gradients are like (accuracy.cpp says why), twice in a
// row. n is the longest of the sums. Such errors meet the numbers of the direction as independent
// ones do: their inner product is off by the root of the sum of the squares of its terms, times
// that.
/// How the loss <grad_out, out> changes along a random direction of all inputs, matrices and
/// biases: what gradients say, beside what two runs in float64 say that have nothing to do with
/// them.
Accuracy check_slope(const Workload& workload, const Context& context,
                     oracle::BlockBackward& problem) {
  constexpr double kStep = 1e-4;  // off by about its square
  oracle::Block wide = block_of(in_float64(workload), false);
  const Runner run = planned(context, wide.desc()).runner({wide.args()}, nullptr);
  const auto loss = [&](double step) {
    follow_direction(workload, problem,
                     [&](BlockGradientOf of, const oracle::Axes& at, double number) {
                       const Tensor& from = differentiated(problem.block, of);
                       differentiated(wide, of).set(at, from.get(at) + step * number);
                     });
    run();
    double sum = 0;
    wide.out.each(
        [&](const oracle::Axes& at) { sum += problem.grad_out.get(at) * wide.out.get(at); });
    return sum;
  };
  const double slope = (loss(kStep) - loss(-kStep)) / (2 * kStep);
  double said = 0;
  double squares = 0;
  follow_direction(workload, problem,
                   [&](BlockGradientOf of, const oracle::Axes& at, double number) {
                     const double term = problem.gradients[of]->get(at) * number;
                     said += term;
                     squares += term * term;
                   });
  const heed_attention_desc& d = workload.desc;
  const double longest =
      static_cast<double>(d.batch * d.query_length + workload.width + d.key_length);
  const double unit = oracle::format_of(workload.desc.query.dtype).unit;
  const double bound = 2 * 8 * std::sqrt(longest) * unit * std::sqrt(squares);
  Accuracy accuracy;
  accuracy.compare(said, {slope, bound});
  return accuracy;
}

}  // namespace

std::shared_ptr<BlockGradients::Call> BlockGradients::call() {
  if (call_) return call_;
  call_ = std::make_shared<Call>(workload_, context_);
  forward_info_ = call_->forward.info();
  info_ = call_->plan.info();
  return call_;
}

Runner BlockGradients::prepare_forward() {
  return [call = call()] { call->run_forward(); };
}

Runner BlockGradients::prepare() {
  prepare_forward()();
  Runner run = [call = call()] { call->run(); };
  run();
  demand(accuracy_, workload_.name,
         [&] { return check_slope(workload_, context_, *call_->problem); });
  return run;
}

}  // namespace heed::perf
