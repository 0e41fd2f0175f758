// Gradients of a multi-head block: planned, checked and ready to run, with the forward run that
// keeps what they need.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "perf/block/problem.hpp"

namespace heed::perf {

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
