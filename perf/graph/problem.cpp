#include "perf/graph/problem.hpp"

#include <utility>

namespace heed::perf {

oracle::Graph make_graph(const Edges& edges, const Context& context, bool reverse) {
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.index_type = HEED_INDEX_I32;
  desc.nodes = edges.nodes();
  desc.edges = edges.count();
  desc.sources = edges.sources.data();
  const std::vector<std::int32_t> offsets(edges.offsets.begin(), edges.offsets.end());
  desc.offsets = offsets.data();
  desc.reverse = reverse ? 1 : 0;
  return oracle::create<heed_graph>(context->get(), &desc);
}

oracle::Graph PlannedGraph::build(const Context& context) {
  const Clock::time_point start = Clock::now();
  oracle::Graph graph = make_graph(*edges_, context, false);
  build_seconds_ = seconds_since(start);
  return graph;
}

PlannedGraph::PlannedGraph(const GraphWorkload& workload, const Context& context,
                           std::shared_ptr<oracle::GraphProblem> tensors)
    : edges_(edges_of(workload)),
      tensors_(std::move(tensors)),
      plan_(planned(context, build(context), workload.desc)),
      run_(plan_.runner({tensors_->args()}, tensors_)) {
  run_();
  accuracy_ = check_accuracy(workload, *edges_, *tensors_);
  demand(accuracy_, workload.name);
}

void count_edges(benchmark::UserCounters& counters, const PlannedGraph& forward,
                 const heed_graph_attention_info& info, double bytes, const Timing& timing) {
  const auto edges = static_cast<double>(forward.edges()->count());
  const auto heads = static_cast<double>(forward.tensors()->desc.heads);
  counters["edges"] = edges;
  counters["medges"] = edges / timing.seconds * 1e-6;
  counters["gbps"] = bytes / timing.seconds * 1e-9;
  counters["gather_gbps"] = timing.peak * 1e-9;
  counters["of_gather"] = bytes / timing.seconds / timing.peak;
  counters["of_scores"] =
      static_cast<double>(info.workspace_bytes) / (edges * heads * sizeof(float));
}

oracle::GraphProblem problem_of(const GraphWorkload& w, const oracle::EdgeList& edges) {
  oracle::GraphProblem p(edges, w.desc);
  if (w.bias) p.add({oracle::kGraphEdgeBias});
  if (w.lse) p.add({oracle::kGraphLse});
  if (w.weights) p.add({oracle::kGraphWeights});
  return p;
}

oracle::GraphProblem problem_of(const GraphWorkload& w, const Edges& edges) {
  oracle::EdgeList counted;
  counted.nodes = edges.nodes();
  if (w.bias || w.weights) counted.sources.resize(edges.sources.size());
  oracle::GraphProblem p = problem_of(w, counted);
  p.fill(1);
  return p;
}

}  // namespace heed::perf
