// What the targets of graphs and of their gradients share.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "tests/fuzz/attention.hpp"
#include "tests/problem/draw_graphs.hpp"

namespace heed_test {

/// A plan over a graph.
template <class Desc>
auto planned(bool damaged, const heed_graph* graph, const Desc* desc) {
  return made<typename PlanOf<Desc>::Plan>(damaged, {"desc."}, fuzz_context().get(), graph, desc);
}

/// Demands that all tensors of what heed has accepted can be addressed, and that elements of
/// outputs lie apart; whether all are worth allocating here, and there is little to compute.
inline bool small(heed_graph_attention_desc& d, const EdgeList& edges) {
  constexpr std::int64_t kMostWork = 1 << 16;
  std::vector<LaidOut> all;
  for (std::size_t of = 0; of < kGraphTensors; ++of)
    if (has(d, of)) all.push_back(laid_out(d, edges, of));
  Wide128 work = (edges.size() + edges.nodes + 1) * Wide128{d.heads};
  work *= d.features + value_features_of(d);
  work *= steps_of(d);
  work *= 1 + d.width + d.edge_width;
  return small(all) && work <= kMostWork;
}

/// Fields of its arguments that damage_pointers must leave alone: a byte further, what is no tensor
/// is no object.
inline constexpr std::initializer_list<std::size_t> kGraphObjects = {
    offsetof(heed_graph_attention_args, p_query), offsetof(heed_graph_attention_args, p_key),
    offsetof(heed_graph_attention_args, p_value)};

}  // namespace heed_test
