#include "perf/graph/tensors.hpp"

#include <string>
#include <utility>

namespace heed::perf {
namespace {

std::size_t count(std::int64_t rows, std::int64_t width, bool wanted = true) {
  return wanted ? static_cast<std::size_t>(rows * width) : 0;
}

std::uint32_t arithmetic_of(const GraphWorkload& workload) {
  return workload.desc.query.dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}

}  // namespace

GraphTensors::GraphTensors(const GraphWorkload& w, std::int64_t edges)
    : query(w.desc.query.dtype, count(w.nodes, key_width(w))),
      key(w.desc.key.dtype, count(w.nodes, key_width(w))),
      value(w.desc.value.dtype, count(w.nodes, value_width(w))),
      out(w.desc.out.dtype, count(w.nodes, value_width(w))),
      bias(arithmetic_of(w), count(edges, w.desc.heads, w.bias)),
      lse(arithmetic_of(w), count(w.nodes, w.desc.heads, w.lse)),
      weights(arithmetic_of(w), count(edges, w.desc.heads, w.weights)) {
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

std::shared_ptr<GraphTensors> graph_tensors_of(const GraphWorkload& workload, std::int64_t edges) {
  static std::pair<std::string, std::shared_ptr<GraphTensors>> latest;
  if (latest.first != workload.name) {
    latest = {};  // frees the older before the new ones are made
    latest = {workload.name, std::make_shared<GraphTensors>(workload, edges)};
  }
  return latest.second;
}

}  // namespace heed::perf
