// Attention over a graph that is planned, checked and ready to run.
#pragma once

#include <memory>

#include "perf/accuracy.hpp"
#include "perf/buffer.hpp"
#include "perf/contexts.hpp"
#include "perf/graph/edges.hpp"
#include "perf/graph/tensors.hpp"
#include "perf/graph/workload.hpp"

namespace heed::perf {

/// Owns all that a run needs, which may be gigabytes. Throws std::runtime_error where results are
/// off by more than they may be.
class GraphProblem {
 public:
  GraphProblem(const GraphWorkload& workload, const Context& context);

  /// Throws std::runtime_error.
  void operator()() {
    check(
        heed_graph_attention_plan_run(plan_.get(), &args_, workspace_.data(), workspace_.bytes()));
  }

  const std::shared_ptr<const Edges>& edges() const { return edges_; }
  const std::shared_ptr<GraphTensors>& tensors() const { return tensors_; }
  const heed_graph_attention_info& info() const { return info_; }
  const Accuracy& accuracy() const { return accuracy_; }
  double build_seconds() const { return build_seconds_; }  ///< of the heed_graph

 private:
  Graph build(const Context& context);

  std::shared_ptr<const Edges> edges_;
  std::shared_ptr<GraphTensors> tensors_;
  double build_seconds_ = 0;
  GraphPlan plan_;
  heed_graph_attention_info info_;
  heed_graph_attention_args args_;
  Workspace workspace_;
  Accuracy accuracy_;
};

}  // namespace heed::perf
