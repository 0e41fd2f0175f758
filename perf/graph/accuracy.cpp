#include "perf/graph/accuracy.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "perf/workload.hpp"

namespace heed::perf {
namespace {

constexpr std::int64_t kNodes = 64;

/// Some nodes that have edges.
std::set<std::int64_t> some_nodes(const Edges& edges) {
  const std::int64_t visited = std::min(edges.nodes(), kNodes);
  std::set<std::int64_t> nodes;
  for (std::int64_t i = 0; i < visited; ++i)
    nodes.insert(visited > 1 ? i * (edges.nodes() - 1) / (visited - 1) : 0);
  std::int64_t most = 0;
  for (std::int64_t n = 1; n < edges.nodes(); ++n)
    if (edges.degree(n) > edges.degree(most)) most = n;
  nodes.insert(most);
  return nodes;
}

std::string number(const char* letters, std::int64_t n) { return letters + std::to_string(n); }

/// The dense problem that a node with so many edges is: one query, its sources the keys. Options
/// are spelled alike, after the sizes.
Workload dense_workload(const GraphWorkload& w, std::int64_t edges) {
  std::string name = number("B1_H", w.desc.heads) + number("_Lq1_Lkv", edges) +
                     number("_D", w.desc.features) + number("_Dv", w.desc.value_features);
  if (w.desc.softcap != 0) name += number("_softcap", static_cast<std::int64_t>(w.desc.softcap));
  if (w.desc.hard != 0) name += "_hard";
  if (w.desc.query.dtype == HEED_DTYPE_BF16) name += "_bf16";
  if (w.desc.query.dtype == HEED_DTYPE_F16) name += "_f16";
  if (w.desc.query.dtype == HEED_DTYPE_F64) name += "_f64";
  if (w.bias) name += "_headbias";
  if (w.lse) name += "_lse";
  if (w.weights) name += "_weights";
  return parse_workload(name);
}

/// [heads, keys, width] of the dense problem from [nodes, heads, width].
void take_rows(Tensor& to, const Tensor& from, const std::int32_t* sources, std::int64_t edges,
               std::int64_t heads, std::int64_t width) {
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t j = 0; j < edges; ++j)
      to.copy((h * edges + j) * width, from, (sources[j] * heads + h) * width, width);
}

/// [heads, keys] from [edges, heads], where the node's edges begin at `first`.
void take_scores(Tensor& to, const Tensor& from, std::int64_t first, std::int64_t edges,
                 std::int64_t heads) {
  if (from.size() == 0) return;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t j = 0; j < edges; ++j)
      to.copy(h * edges + j, from, (first + j) * heads + h, 1);
}

Accuracy check_node(const GraphWorkload& w, const Edges& edges, const GraphTensors& tensors,
                    std::int64_t node) {
  const std::int64_t first = edges.offsets[static_cast<std::size_t>(node)];
  const std::int64_t count = edges.degree(node);
  const std::int32_t* const sources = edges.sources.data() + first;
  const std::int64_t heads = w.desc.heads;
  const Workload dense = dense_workload(w, count);
  Tensors at(dense);
  at.query.copy(0, tensors.query, node * key_width(w), key_width(w));
  take_rows(at.key, tensors.key, sources, count, heads, w.desc.features);
  take_rows(at.value, tensors.value, sources, count, heads, w.desc.value_features);
  take_scores(at.bias, tensors.bias, first, count, heads);
  at.out.copy(0, tensors.out, node * value_width(w), value_width(w));
  if (w.lse) at.lse.copy(0, tensors.lse, node * heads, heads);
  take_scores(at.weights, tensors.weights, first, count, heads);
  return check_accuracy(dense, at);
}

/// Without edges everything is 0, and the log-sum-exp of nothing.
Accuracy check_isolated(const GraphWorkload& w, const GraphTensors& tensors, std::int64_t node) {
  Accuracy accuracy;
  for (std::int64_t x = 0; x < value_width(w); ++x)
    if (tensors.out[node * value_width(w) + x] != 0) accuracy.within = false;
  return accuracy;
}

}  // namespace

Accuracy check_accuracy(const GraphWorkload& workload, const Edges& edges,
                        const GraphTensors& tensors) {
  Accuracy accuracy;
  for (const std::int64_t node : some_nodes(edges))
    accuracy.include(edges.degree(node) == 0 ? check_isolated(workload, tensors, node)
                                             : check_node(workload, edges, tensors, node));
  return accuracy;
}

}  // namespace heed::perf
