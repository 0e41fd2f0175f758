// Gradients of attention over a graph: planned, checked and ready to run, with the forward run.
#pragma once

#include <memory>

#include "perf/graph/problem.hpp"

namespace heed::perf {

/// [nodes, heads, features] each, and of a bias [edges, heads].
struct GraphGradientTensors {
  explicit GraphGradientTensors(const GraphTensors& forward);

  Tensor grad_out;
  Tensor query, key, value;
  Tensor bias;
};

/// Owns all that a run needs. Throws std::runtime_error where gradients are off by more than they
/// may be.
class GraphGradients {
 public:
  GraphGradients(const GraphWorkload& workload, const Context& context);

  /// Throws std::runtime_error.
  void operator()();
  GraphProblem& forward() { return forward_; }

  const heed_graph_attention_info& info() const { return info_; }
  const Accuracy& accuracy() const { return accuracy_; }
  /// Of the heed_graph, its reverse order included.
  double build_seconds() const { return build_seconds_; }

 private:
  GraphProblem forward_;
  double build_seconds_ = 0;
  GraphBackwardPlan plan_;
  heed_graph_attention_info info_;
  std::shared_ptr<GraphGradientTensors> gradients_;
  heed_graph_attention_args args_;
  heed_graph_attention_backward_args backward_args_ = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;
  Workspace workspace_;
  Accuracy accuracy_;
};

/// Compares gradients of queries, keys and values of about 24 nodes from the first to the last with
/// the oracle: each as a graph of its own, with all edges that its gradients come from. Nodes with
/// very many of those are left out.
Accuracy check_gradients(const GraphWorkload& workload, const Edges& edges, GraphTensors& tensors,
                         GraphGradientTensors& gradients, std::int64_t parts);

}  // namespace heed::perf
