// Attention over a graph: its tensors, and planned, checked and ready to run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "perf/accuracy.hpp"
#include "perf/contexts.hpp"
#include "perf/graph/workload.hpp"
#include "perf/peak.hpp"
#include "tests/problem/graph_attention.hpp"

namespace heed::perf {

/// All tensors of a workload over a graph with these edges; what a run writes is canaries at first.
/// Of a large graph the list says only how many nodes and edges there are.
oracle::GraphProblem problem_of(const GraphWorkload& workload, const oracle::EdgeList& edges);
oracle::GraphProblem problem_of(const GraphWorkload& workload, const Edges& edges);

/// With `reverse` for gradients too.
oracle::Graph make_graph(const Edges& edges, const Context& context, bool reverse);

/// Owns all that a run needs, which may be gigabytes. Throws std::runtime_error where results are
/// off by more than they may be.
class PlannedGraph {
 public:
  PlannedGraph(const GraphWorkload& workload, const Context& context,
               std::shared_ptr<oracle::GraphProblem> tensors);

  /// Throws std::runtime_error.
  void operator()() { run_(); }

  const std::shared_ptr<const Edges>& edges() const { return edges_; }
  const std::shared_ptr<oracle::GraphProblem>& tensors() const { return tensors_; }
  const heed_graph_attention_info& info() const { return plan_.info(); }
  const Accuracy& accuracy() const { return accuracy_; }
  double build_seconds() const { return build_seconds_; }  ///< of the heed_graph

 private:
  oracle::Graph build(const Context& context);

  std::shared_ptr<const Edges> edges_;
  std::shared_ptr<oracle::GraphProblem> tensors_;
  double build_seconds_ = 0;
  MadePlan<heed_graph_attention_desc> plan_;
  Runner run_;
  Accuracy accuracy_;
};

inline std::shared_ptr<Edges> edges_of(const GraphWorkload& workload) {
  return kept<Edges>(workload.graph, [&] { return Edges(workload); });
}

/// So many nodes from the first to the last.
std::vector<std::int64_t> spread_nodes(const Edges& edges, std::int64_t count);

/// A node's own edges, and all into where some of its own lead: a graph for the oracle, which could
/// not hold the numbers of a whole one.
struct Around {
  Around(const Edges& edges, std::int64_t node, const std::vector<std::int64_t>& destinations = {});

  /// One head of the whole problem's rows of these nodes and edges.
  oracle::GraphProblem part_of(const GraphWorkload& workload, const oracle::GraphProblem& whole,
                               std::int64_t head) const;

  oracle::EdgeList list;                   ///< in which the node is the first
  std::vector<std::int64_t> nodes, given;  ///< what numbers of the whole graph theirs are
};
/// A head's rows, by their numbers.
void take_rows(const Tensor& from, std::int64_t head, const std::vector<std::int64_t>& rows,
               Tensor& to);

/// What a run over so many edges, which gathers so many bytes, comes to; timing.peak: of loops that
/// only gather.
void count_edges(benchmark::UserCounters& counters, const PlannedGraph& forward,
                 const heed_graph_attention_info& info, double bytes, const Timing& timing);

/// Compares out, lse and weights at about 64 nodes from the first to the last, and at the one with
/// the most edges.
Accuracy check_accuracy(const GraphWorkload& workload, const Edges& edges,
                        const oracle::GraphProblem& problem);

// ---- Gradients, with the forward run ----

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
