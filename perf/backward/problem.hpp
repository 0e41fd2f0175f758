// A workload's gradients: planned, checked and ready to run, with the forward run that they follow.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "perf/planned.hpp"
#include "tests/problem/attention.hpp"

namespace heed::perf {

class Gradients {
 public:
  Gradients(const std::string& workload, const Context& context);

  const Workload& workload() const { return workload_; }
  std::string isa() const { return info().isa; }
  const heed_attention_info& info() const { return plan_.info(); }
  bool multiplies_pairs() const { return info().precision == HEED_PRECISION_DEFAULT; }
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
  Runner prepare_forward();

  std::string tiles() const { return tiles_of(info()); }
  std::string label() const { return label_of(info()); }

 private:
  std::shared_ptr<oracle::BackwardProblem> tensors() const;

  Workload workload_;
  MadePlan<heed_attention_backward_desc> plan_;
  Planned forward_;
  std::optional<Accuracy> accuracy_;
};

/// Compares gradients of about 16 query rows and of as many keys and values, spread over the batch
/// and heads, with what the oracle makes of out and log-sum-exp as they are, with the bounds of
/// pairs of bfloat16 if those are multiplied.
Accuracy check_gradients(oracle::BackwardProblem& problem, bool pairs);

}  // namespace heed::perf
