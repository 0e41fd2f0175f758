#include "perf/graph/problem.hpp"

#include <vector>

#include "perf/graph/accuracy.hpp"
#include "perf/peak.hpp"

namespace heed::perf {

Graph GraphProblem::build(const Context& context) {
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.index_type = HEED_INDEX_I32;
  desc.nodes = edges_->nodes();
  desc.edges = edges_->count();
  desc.sources = edges_->sources.data();
  const std::vector<std::int32_t> offsets(edges_->offsets.begin(), edges_->offsets.end());
  desc.offsets = offsets.data();
  const Clock::time_point start = Clock::now();
  Graph graph = make_graph(context, desc);
  build_seconds_ = seconds_since(start);
  return graph;
}

GraphProblem::GraphProblem(const GraphWorkload& workload, const Context& context)
    : edges_(edges_of(workload)),
      tensors_(graph_tensors_of(workload, edges_->count())),
      plan_(make_plan(context, build(context), workload.desc)),  // it holds the graph
      info_(describe(plan_)),
      args_(tensors_->args()),
      workspace_(info_.workspace_bytes) {
  (*this)();
  accuracy_ = check_accuracy(workload, *edges_, *tensors_);
  demand(accuracy_, workload.name);
}

}  // namespace heed::perf
