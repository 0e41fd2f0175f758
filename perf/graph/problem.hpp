// Attention over a graph: its tensors, and planned, checked and ready to run.
#pragma once

#include <cstdint>
#include <memory>

#include "perf/accuracy.hpp"
#include "perf/buffer.hpp"
#include "perf/contexts.hpp"
#include "perf/graph/edges.hpp"
#include "perf/graph/workload.hpp"
#include "perf/tensors.hpp"

namespace heed::perf {

/// [nodes or edges, heads, features] each; outputs are NaN until something computes them.
struct GraphTensors {
  GraphTensors(const GraphWorkload& workload, std::int64_t edges);
  /// Rows of another's inputs: select(tensor, width, over edges or nodes) makes each tensor.
  template <class Select>
  GraphTensors(const GraphTensors& of, Select&& select, const GraphWorkload& workload)
      : query(select(of.query, key_width(workload), false)),
        key(select(of.key, key_width(workload), false)),
        value(select(of.value, value_width(workload), false)),
        out(select(of.out, value_width(workload), false)),
        bias(select(of.bias, workload.desc.heads, true)) {}
  heed_graph_attention_args args();

  Tensor query;
  Tensor key;
  Tensor value;
  Tensor out;

  // Without elements where the workload has none.
  Tensor bias;     ///< [edges, heads]
  Tensor lse;      ///< [nodes, heads]
  Tensor weights;  ///< [edges, heads]
};

/// With `reverse` for gradients too.
Graph make_graph(const Edges& edges, const Context& context, bool reverse);

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

/// Compares out, lse and weights at about 64 nodes from the first to the last, and at the one with
/// the most edges. Those of a node may be computed in as many parts, and merged.
Accuracy check_accuracy(const GraphWorkload& workload, const Edges& edges, GraphTensors& tensors,
                        std::int64_t parts);

}  // namespace heed::perf
