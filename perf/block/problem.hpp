// A multi-head block: its tensors, and planned, checked and ready to run.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "perf/accuracy.hpp"
#include "perf/planned.hpp"
#include "tests/problem/block.hpp"

namespace heed::perf {

/// The block of a workload. Of its attention's own tensors only the sizes are there.
oracle::Block block_of(const Workload& workload, bool prepared);

class Block {
 public:
  Block(const std::string& workload, Context context);

  const Workload& workload() const { return workload_; }
  std::string isa() const { return describe(context_).isa; }
  /// After the first run.
  const heed_multihead_info& info() const { return info_; }
  const Accuracy& accuracy() const { return *accuracy_; }

  /// Plans the block and runs it once; the first time also checks its results: throws
  /// std::runtime_error where they are off by more than they may be.
  Runner prepare();

 private:
  Workload workload_;
  Context context_;
  heed_multihead_info info_ = HEED_MULTIHEAD_INFO_INIT;
  std::optional<Accuracy> accuracy_;
};

/// Compares some rows of out of the last batch item, from its first to its last. The weights of
/// none: attention's own outputs are checked by its own rows.
Accuracy check_accuracy(const Workload& workload, oracle::Block& block);

}  // namespace heed::perf
