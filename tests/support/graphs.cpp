#include "tests/support/graphs.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace heed_test {
GraphArrays::GraphArrays(const EdgeList& edges, const GraphForm& form)
    : sources(edges.sources), ends(edges.destinations), rows_(form.rows) {
  if (form.rows) {
    ends.assign(static_cast<std::size_t>(edges.nodes) + 1, 0);
    for (const Index n : edges.destinations) ++ends[static_cast<std::size_t>(n) + 1];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
  }
  desc_.index_type = form.index_type;
  desc_.nodes = edges.nodes;
  desc_.edges = edges.size();
  desc_.duplicates = edges.unique ? HEED_DUPLICATES_REMOVE : HEED_DUPLICATES_KEEP;
  if (edges.unique != form.rows) desc_.duplicates = HEED_DUPLICATES_DEFAULT;
  desc_.reverse = form.reverse ? 1 : 0;
  desc_.source_nodes = edges.source_nodes;
}

heed_graph_desc GraphArrays::desc() {
  const auto place = [&](const std::vector<std::int64_t>& wide, std::vector<std::int32_t>& narrow) {
    if (desc_.index_type == HEED_INDEX_I64) return static_cast<const void*>(wide.data());
    narrow.assign(wide.begin(), wide.end());
    return static_cast<const void*>(narrow.data());
  };
  desc_.sources = place(sources, narrow_sources_);
  (rows_ ? desc_.offsets : desc_.destinations) = place(ends, narrow_ends_);
  return desc_;
}

Graph make_graph(const Context& context, const EdgeList& edges, const GraphForm& form) {
  GraphArrays arrays(edges, form);
  const heed_graph_desc desc = arrays.desc();
  return create<heed_graph>(context.get(), &desc);
}

EdgeList reordered(const EdgeList& edges, const std::vector<std::size_t>& order) {
  EdgeList result{edges.nodes, {}, {}, edges.unique, edges.source_nodes};
  for (const std::size_t e : order) result.add(edges.sources[e], edges.destinations[e]);
  return result;
}

std::vector<std::size_t> random_order(std::size_t n, Random& random) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.bits() % i]);
  return order;
}

EdgeList by_destination(const EdgeList& edges) {
  std::vector<std::size_t> order(edges.sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::make_pair(edges.destinations[a], a) < std::make_pair(edges.destinations[b], b);
  });
  return reordered(edges, order);
}

EdgeList random_edges(Index nodes, Index edges, std::uint64_t seed) {
  EdgeList list{nodes, {}, {}, false};
  Random random(seed);
  for (Index e = 0; e < edges; ++e)
    list.add(random.integer(0, nodes - 1), random.integer(0, nodes - 1));
  return list;
}

EdgeList complete_graph(Index nodes) {
  EdgeList list{nodes, {}, {}, false};
  for (Index n = 0; n < nodes; ++n)
    for (Index m = 0; m < nodes; ++m) list.add(m, n);
  return list;
}

EdgeList hub_graph(Index nodes, Index edges, Index hub, std::uint64_t seed) {
  EdgeList list{nodes, {}, {}, false};
  Random random(seed);
  for (Index e = 0; e < edges; ++e) {
    const Index n = random.integer(0, 19) == 0 ? random.integer(0, nodes - 1) : hub;
    list.add(random.integer(0, nodes - 1), n);
  }
  return list;
}

}  // namespace heed_test
