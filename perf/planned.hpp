// A workload that is planned, checked and ready to run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perf/accuracy.hpp"
#include "perf/catalogue.hpp"
#include "perf/contexts.hpp"

namespace heed::perf {

inline std::string tiles_of(const heed_attention_info& info) {
  return std::to_string(info.tile_q) + "x" + std::to_string(info.tile_kv);
}
/// E.g. "avx2 tiles 360x256 tbb".
inline std::string label_of(const heed_attention_info& info) {
  return std::string(info.isa) + " tiles " + tiles_of(info) + " " + info.executor;
}

class Planned {
 public:
  Planned(const std::string& workload, const Context& context);

  const Workload& workload() const { return workload_; }
  const heed_attention_info& info() const { return plan_.info(); }
  double flops() const { return flops_; }
  const Accuracy& accuracy() const { return *accuracy_; }
  bool multiplies_pairs() const { return info().precision != HEED_PRECISION_EXACT; }

  /// The first time also runs the workload and checks its results: throws std::runtime_error where
  /// they are off by more than they may be.
  Runner prepare();
  /// The same with the tensors of a problem that `owner` holds.
  Runner prepare(const std::shared_ptr<void>& owner, oracle::Problem& problem,
                 std::vector<heed_attention_args> layers);

  std::string tiles() const { return tiles_of(info()); }
  std::string label() const { return label_of(info()); }

 private:
  Workload workload_;
  double flops_;
  MadePlan<heed_attention_desc> plan_;
  std::optional<Accuracy> accuracy_;
};

}  // namespace heed::perf
