#include <algorithm>
#include <map>
#include <set>

#include "perf/graph/problem.hpp"

namespace heed::perf {
namespace {

constexpr std::int64_t kNodes = 64;

std::int64_t node_with_most_edges(const Edges& edges) {
  std::int64_t most = 0;
  for (std::int64_t n = 1; n < edges.nodes(); ++n)
    if (edges.degree(n) > edges.degree(most)) most = n;
  return most;
}

}  // namespace

std::vector<std::int64_t> spread_nodes(const Edges& edges, std::int64_t count) {
  const std::int64_t visited = std::min(edges.nodes(), count);
  std::vector<std::int64_t> nodes;
  for (std::int64_t i = 0; i < visited; ++i)
    nodes.push_back(visited > 1 ? i * (edges.nodes() - 1) / (visited - 1) : 0);
  return nodes;
}

Around::Around(const Edges& edges, std::int64_t node,
               const std::vector<std::int64_t>& destinations) {
  std::map<std::int64_t, std::int64_t> numbers;
  const auto number = [&](std::int64_t n) {
    const auto [at, added] = numbers.emplace(n, static_cast<std::int64_t>(nodes.size()));
    if (added) nodes.push_back(n);
    return at->second;
  };
  number(node);
  std::set<std::int64_t> into(destinations.begin(), destinations.end());
  into.insert(node);
  for (const std::int64_t n : into) {
    const std::int64_t first = edges.offsets[static_cast<std::size_t>(n)];
    for (std::int64_t e = first; e < first + edges.degree(n); ++e) {
      list.add(number(edges.sources[static_cast<std::size_t>(e)]), number(n));
      given.push_back(e);
    }
  }
  list.nodes = static_cast<std::int64_t>(nodes.size());
}

oracle::GraphProblem Around::part_of(const GraphWorkload& workload,
                                     const oracle::GraphProblem& whole, std::int64_t head) const {
  GraphWorkload one = workload;
  one.desc.heads = 1;
  oracle::GraphProblem part = problem_of(one, list);
  take_rows(*whole.query, head, nodes, *part.query);
  take_rows(*whole.key, head, nodes, *part.key);
  take_rows(*whole.value, head, nodes, *part.value);
  if (whole.edge_bias) take_rows(*whole.edge_bias, head, given, *part.edge_bias);
  return part;
}

void take_rows(const Tensor& from, std::int64_t head, const std::vector<std::int64_t>& rows,
               Tensor& to) {
  to.fill([&](const oracle::Axes& at) {
    return from.get({0, head, rows[static_cast<std::size_t>(at[2])], at[3]});
  });
}

Accuracy check_accuracy(const GraphWorkload& workload, const Edges& edges,
                        const oracle::GraphProblem& problem) {
  Accuracy accuracy;
  std::vector<std::int64_t> some = spread_nodes(edges, kNodes);
  some.push_back(node_with_most_edges(edges));
  for (const std::int64_t node : some) {
    const Around around(edges, node);
    const std::int64_t first = edges.offsets[static_cast<std::size_t>(node)];
    for (std::int64_t h = 0; h < workload.desc.heads; ++h) {
      oracle::GraphProblem part = around.part_of(workload, problem, h);
      const oracle::Expected want = oracle::expect(part.given(1));
      for (std::int64_t x = 0; x < workload.desc.value_features; ++x)
        accuracy.compare(problem.out->get({0, h, node, x}), want.out[static_cast<std::size_t>(x)]);
      if (problem.lse) accuracy.compare(problem.lse->get({0, h, node, 0}), want.lse[0]);
      for (std::size_t e = 0; problem.weights && e < want.weights.size(); ++e)
        accuracy.compare(problem.weights->get({0, h, first + static_cast<std::int64_t>(e), 0}),
                         want.weights[e]);
    }
  }
  return accuracy;
}

}  // namespace heed::perf
