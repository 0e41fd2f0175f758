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

// ---- Gradients, with the forward run that keeps what they need ----

class BlockGradients {
 public:
  BlockGradients(const std::string& workload, Context context);

  const Workload& workload() const { return workload_; }
  std::string isa() const { return describe(context_).isa; }
  /// This and the next, after the first run.
  const heed_multihead_info& info() const { return info_; }
  double flops() const { return info_.projection_flops + info_.attention_flops; }
  double forward_flops() const {
    return forward_info_.projection_flops + forward_info_.attention_flops;
  }
  /// Attention's gradients come in float32.
  static bool multiplies_pairs() { return false; }
  std::size_t kept_bytes() const { return forward_info_.kept_bytes; }
  const Accuracy& accuracy() const { return *accuracy_; }

  /// Backward alone, of what the forward run has kept. The first time also checks gradients: throws
  /// std::runtime_error where they are off by more than they may be.
  Runner prepare();
  /// Blocks choose tiles where they attend and multiply.
  static std::string tiles() { return "-"; }
  std::string label() const {
    return std::string(info_.isa) + " product " + info_.product + " " + info_.executor;
  }

  /// The forward run, which keeps. Matrices are as they are, since training changes them.
  Runner prepare_forward();

 private:
  struct Call;
  std::shared_ptr<Call> call();

  Workload workload_;
  Context context_;
  heed_multihead_info forward_info_ = HEED_MULTIHEAD_INFO_INIT, info_ = HEED_MULTIHEAD_INFO_INIT;
  std::shared_ptr<Call> call_;
  std::optional<Accuracy> accuracy_;
};

}  // namespace heed::perf
