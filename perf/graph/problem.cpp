#include "perf/graph/problem.hpp"

#include <stdexcept>

#include "perf/graph/accuracy.hpp"
#include "perf/peak.hpp"

namespace heed::perf {
namespace {

std::shared_ptr<heed_graph_attention_plan> make_plan(const Context& context,
                                                     const heed_graph* graph,
                                                     const heed_graph_attention_desc& desc) {
  heed_graph_attention_plan* plan = nullptr;
  check(heed_graph_attention_plan_create(context.get(), graph, &desc, &plan));
  return {plan, heed_graph_attention_plan_destroy};
}

heed_graph_attention_info describe(const heed_graph_attention_plan* plan) {
  heed_graph_attention_info info = HEED_GRAPH_ATTENTION_INFO_INIT;
  check(heed_graph_attention_plan_describe(plan, &info));
  return info;
}

}  // namespace

std::shared_ptr<heed_graph> GraphProblem::make_graph(const Context& context) {
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.index_type = HEED_INDEX_I32;
  desc.nodes = edges_->nodes();
  desc.edges = edges_->count();
  desc.sources = edges_->sources.data();
  const std::vector<std::int32_t> offsets(edges_->offsets.begin(), edges_->offsets.end());
  desc.offsets = offsets.data();
  heed_graph* graph = nullptr;
  const Clock::time_point start = Clock::now();
  check(heed_graph_create(context.get(), &desc, &graph));
  build_seconds_ = seconds_since(start);
  return {graph, heed_graph_destroy};
}

GraphProblem::GraphProblem(const GraphWorkload& workload, const Context& context)
    : edges_(edges_of(workload)),
      tensors_(graph_tensors_of(workload, edges_->count())),
      plan_(make_plan(context, make_graph(context).get(), workload.desc)),  // it holds the graph
      info_(describe(plan_.get())),
      args_(tensors_->args()),
      workspace_(info_.workspace_bytes) {
  (*this)();
  accuracy_ = check_accuracy(workload, *edges_, *tensors_);
  if (!accuracy_.within) throw std::runtime_error(workload.name + ": " + excess_text(accuracy_));
}

}  // namespace heed::perf
