#include "perf/graph/problem.hpp"

#include <vector>

#include "perf/peak.hpp"

namespace heed::perf {

Graph make_graph(const Edges& edges, const Context& context, bool reverse) {
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.index_type = HEED_INDEX_I32;
  desc.nodes = edges.nodes();
  desc.edges = edges.count();
  desc.sources = edges.sources.data();
  const std::vector<std::int32_t> offsets(edges.offsets.begin(), edges.offsets.end());
  desc.offsets = offsets.data();
  desc.reverse = reverse ? 1 : 0;
  return made(heed_graph_create, heed_graph_destroy, context.get(), &desc);
}

Graph GraphProblem::build(const Context& context) {
  const Clock::time_point start = Clock::now();
  Graph graph = make_graph(*edges_, context, false);
  build_seconds_ = seconds_since(start);
  return graph;
}

GraphProblem::GraphProblem(const GraphWorkload& workload, const Context& context)
    : edges_(kept<Edges>(workload.graph, workload)),
      tensors_(kept<GraphTensors>(workload.name, workload, edges_->count())),
      plan_(made(heed_graph_attention_plan_create, heed_graph_attention_plan_destroy, context.get(),
                 build(context).get(), &workload.desc)),  // it holds the graph
      info_(described(heed_graph_attention_plan_describe, plan_.get(),
                      HEED_GRAPH_ATTENTION_INFO_INIT)),
      args_(tensors_->args()),
      workspace_(info_.workspace_bytes) {
  (*this)();
  accuracy_ = check_accuracy(workload, *edges_, *tensors_, static_cast<std::int64_t>(info_.tasks));
  demand(accuracy_, workload.name);
}

GraphTensors::GraphTensors(const GraphWorkload& w, std::int64_t edges)
    : query(w.desc.query.dtype, w.nodes * key_width(w)),
      key(w.desc.key.dtype, w.nodes * key_width(w)),
      value(w.desc.value.dtype, w.nodes * value_width(w)),
      out(w.desc.out.dtype, w.nodes * value_width(w)),
      bias(oracle::real_dtype(w.desc), w.bias ? edges * w.desc.heads : 0),
      lse(oracle::real_dtype(w.desc), w.lse ? w.nodes * w.desc.heads : 0),
      weights(oracle::real_dtype(w.desc), w.weights ? edges * w.desc.heads : 0) {
  fill_random(query, 1);
  fill_random(key, 2);
  fill_random(value, 3);
  fill_random(bias, 5);
  for (Tensor* const result : {&out, &lse, &weights}) fill_with_nan(*result);
}

heed_graph_attention_args GraphTensors::args() {
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  args.query = query.data();
  args.key = key.data();
  args.value = value.data();
  args.edge_bias = bias.data();
  args.out = out.data();
  args.lse = lse.data();
  args.weights = weights.data();
  return args;
}

}  // namespace heed::perf
