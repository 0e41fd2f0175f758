#include <map>
#include <vector>

#include "perf/graph/problem.hpp"

namespace heed::perf {
namespace {

/// Of queries, keys and values, and of a bias where there is one.
oracle::GraphBackwardProblem with_gradients(const GraphWorkload& w, oracle::GraphProblem forward) {
  const std::uint32_t type = w.desc.query.dtype;
  oracle::GraphBackwardProblem problem(std::move(forward), 9, {type});
  for (const oracle::GraphGradientOf of :
       {oracle::kGraphQuery, oracle::kGraphKey, oracle::kGraphValue})
    problem.want(of, {type});
  if (w.bias) problem.want(oracle::kGraphEdgeBias);
  return problem;
}

constexpr std::int64_t kNodes = 24;
constexpr std::int64_t kMostEdges = 4096;  // that a node's gradients may come from

/// Some nodes, and where the edges from each lead.
std::map<std::int64_t, std::vector<std::int64_t>> destinations_of_some(const Edges& edges) {
  std::map<std::int64_t, std::vector<std::int64_t>> found;
  for (const std::int64_t node : spread_nodes(edges, kNodes)) found[node] = {};
  for (std::int64_t n = 0; n < edges.nodes(); ++n)
    for (std::int64_t e = edges.offsets[static_cast<std::size_t>(n)];
         e < edges.offsets[static_cast<std::size_t>(n) + 1]; ++e) {
      const auto of = found.find(edges.sources[static_cast<std::size_t>(e)]);
      if (of != found.end()) of->second.push_back(n);
    }
  return found;
}

/// Compares gradients of queries, keys and values of about 24 nodes from the first to the last with
/// the oracle: each as a graph of its own, with all edges that its gradients come from. Nodes with
/// very many of those are left out.
Accuracy check_gradients(const GraphWorkload& w, const Edges& edges,
                         const oracle::GraphBackwardProblem& problem) {
  Accuracy accuracy;
  for (const auto& [node, destinations] : destinations_of_some(edges)) {
    std::int64_t count = edges.degree(node);
    for (const std::int64_t n : destinations) count += edges.degree(n);
    if (count > kMostEdges) continue;
    const Around around(edges, node, destinations);
    for (std::int64_t h = 0; h < w.desc.heads; ++h) {
      oracle::GraphBackwardProblem part = with_gradients(w, around.part_of(w, problem.forward, h));
      take_rows(problem.grad_out, h, around.nodes, part.grad_out);
      const oracle::ExpectedGraphGradients want = part.expected();
      for (const oracle::GraphGradientOf of :
           {oracle::kGraphQuery, oracle::kGraphKey, oracle::kGraphValue})
        for (std::int64_t x = 0; x < problem.gradients[of]->shape()[3]; ++x)
          accuracy.compare(problem.gradients[of]->get({0, h, node, x}),
                           want[of][static_cast<std::size_t>(x)]);
    }
  }
  return accuracy;
}

}  // namespace

PlannedGraphGradients::PlannedGraphGradients(const GraphWorkload& workload, const Context& context)
    : problem_(std::make_shared<oracle::GraphBackwardProblem>(
          with_gradients(workload, problem_of(workload, *edges_of(workload))))),
      forward_(workload, context, {problem_, &problem_->forward}),
      plan_([&] {
        const Clock::time_point start = Clock::now();
        const oracle::Graph graph = make_graph(*forward_.edges(), context, true);
        build_seconds_ = seconds_since(start);
        return planned(context, graph, problem_->desc());
      }()),
      run_(plan_.runner({problem_->args()}, problem_)) {
  run_();
  accuracy_ = check_gradients(workload, *forward_.edges(), *problem_);
  demand(accuracy_, workload.name);
}

}  // namespace heed::perf
