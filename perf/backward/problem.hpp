// A workload's gradients: planned, checked and ready to run, with the forward run that they follow.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "perf/accuracy.hpp"
#include "perf/catalogue.hpp"
#include "perf/planned.hpp"
#include "perf/tensors.hpp"
#include "perf/workload.hpp"

namespace heed::perf {

/// The gradient of out, and those that a run writes: of queries, keys and values, and of a bias and
/// sinks where the workload has them.
struct GradientTensors {
  explicit GradientTensors(const Tensors& forward);
  heed_attention_backward_args args(const Workload& workload, const heed_attention_args& forward);

  Tensor grad_out;
  Tensor query, key, value;
  Tensor bias, sinks;
};

/// What the derivative of the score function is, for the oracle; empty where there is none.
oracle::ScoreModel score_derivative(const Workload& workload);

class Gradients {
 public:
  Gradients(const std::string& workload, const Context& context);

  const Workload& workload() const { return workload_; }
  const heed_attention_info& info() const { return info_; }
  bool multiplies_pairs() const { return info_.precision == HEED_PRECISION_DEFAULT; }
  const Planned& forward() const { return forward_; }
  /// Of backward alone: of each pair, five products where forward has two.
  double flops() const;
  double forward_flops() const { return forward_.flops(); }
  /// What forward leaves is out and log-sum-exp, which callers have anyway.
  static std::size_t kept_bytes() { return 0; }
  const Accuracy& accuracy() const { return *accuracy_; }

  /// Backward alone, of what forward has left. The first time also checks both: throws
  /// std::runtime_error where gradients are off by more than they may be.
  Runner prepare();
  /// The forward run, which returns log-sum-exp too.
  Runner prepare_forward() { return forward_.prepare(); }

  std::string tiles() const;
  std::string label() const;

 private:
  Workload workload_;
  BackwardPlan plan_;
  heed_attention_info info_;
  Planned forward_;
  std::optional<Accuracy> accuracy_;
};

/// Compares gradients of about 16 query rows and of as many keys and values, spread over the batch
/// and heads, with what the oracle makes of out and log-sum-exp as they are, with the bounds of
/// pairs of bfloat16 if those are multiplied.
Accuracy check_gradients(const Workload& workload, Tensors& tensors, GradientTensors& gradients,
                         bool pairs);

}  // namespace heed::perf
