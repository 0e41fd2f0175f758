// A workload that is planned, checked and ready to run.
#pragma once

#include <memory>
#include <string>

#include "perf/accuracy.hpp"
#include "perf/buffer.hpp"
#include "perf/catalogue.hpp"
#include "perf/contexts.hpp"
#include "perf/tensors.hpp"
#include "perf/workload.hpp"

namespace heed::perf {

/// Calls heed; owns all that a call needs.
class Runner {
 public:
  Runner(Plan plan, std::size_t workspace_bytes, std::shared_ptr<Tensors> tensors);

  /// Throws std::runtime_error.
  void operator()() {
    check(heed_attention_plan_run(plan_.get(), &args_, workspace_.data(), workspace_.bytes()));
  }

 private:
  Plan plan_;
  std::shared_ptr<Tensors> tensors_;
  heed_attention_args args_;
  Workspace workspace_;
};

class Planned {
 public:
  Planned(const std::string& workload, const Context& context);

  const Workload& workload() const { return workload_; }
  const heed_attention_info& info() const { return info_; }
  double flops() const { return flops_; }
  const Accuracy& accuracy() const { return accuracy_; }

  /// The first time also runs the workload and checks its results: throws std::runtime_error where
  /// they are off by more than they may be.
  Runner prepare();

  /// <kind>/<workload>/threads:<n>/isa:<isa>
  Row row(const std::string& kind, unsigned threads) const;
  std::string label() const;  ///< e.g. "avx2 tiles 360x256 tbb"

 private:
  std::string tiles() const;

  Workload workload_;
  double flops_;
  Plan plan_;
  heed_attention_info info_;
  Accuracy accuracy_;
  bool checked_ = false;
};

}  // namespace heed::perf
