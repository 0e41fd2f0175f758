// Gradients of attention over a graph: planned, checked and ready to run, with the forward run.
#pragma once

#include <memory>

#include "perf/graph/problem.hpp"
#include "tests/problem/graph_backward.hpp"

namespace heed::perf {

/// Owns all that a run needs. Throws std::runtime_error where gradients are off by more than they
/// may be.
class PlannedGraphGradients {
 public:
  PlannedGraphGradients(const GraphWorkload& workload, const Context& context);

  /// Throws std::runtime_error.
  void operator()() { run_(); }
  PlannedGraph& forward() { return forward_; }

  const heed_graph_attention_info& info() const { return plan_.info(); }
  const Accuracy& accuracy() const { return accuracy_; }
  /// Of the heed_graph, its reverse order included.
  double build_seconds() const { return build_seconds_; }

 private:
  std::shared_ptr<oracle::GraphBackwardProblem> problem_;
  PlannedGraph forward_;
  double build_seconds_ = 0;
  MadePlan<heed_graph_attention_backward_desc> plan_;
  Runner run_;
  Accuracy accuracy_;
};

}  // namespace heed::perf
