// A multi-head block that is planned, checked and ready to run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "perf/accuracy.hpp"
#include "perf/block/tensors.hpp"
#include "perf/buffer.hpp"
#include "perf/catalogue.hpp"
#include "perf/contexts.hpp"

namespace heed::perf {

/// Calls heed; owns all that a call needs, prepared weights among it.
class BlockRunner {
 public:
  BlockRunner(const Context& context, const Workload& workload, BlockPlan plan,
              std::shared_ptr<BlockTensors> tensors);

  /// Throws std::runtime_error.
  void operator()() {
    args_.attention = &attention_;  // this object may have been moved
    check(heed_multihead_plan_run(plan_.get(), &args_, workspace_.data(), workspace_.bytes()));
  }

 private:
  void give(const Context& context, bool raw, Projection& projection, const void*& matrix,
            const void*& bias, const heed_weights*& prepared);

  BlockPlan plan_;
  std::shared_ptr<BlockTensors> tensors_;
  std::vector<Weights> weights_;
  heed_attention_args attention_;
  heed_multihead_args args_;
  Workspace workspace_;
};

class Block {
 public:
  Block(const std::string& workload, Context context);

  const Workload& workload() const { return workload_; }
  const heed_multihead_info& info() const { return info_; }
  const Accuracy& accuracy() const { return accuracy_; }

  /// Runs the block once; the first time also checks its results: throws std::runtime_error where
  /// they are off by more than they may be.
  BlockRunner prepare();

 private:
  Workload workload_;
  Context context_;
  BlockPlan plan_;
  heed_multihead_info info_;
  Accuracy accuracy_;
  bool checked_ = false;
};

}  // namespace heed::perf
