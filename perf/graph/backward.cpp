#include "perf/graph/backward.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "perf/peak.hpp"
#include "tests/oracle/graph_backward.hpp"

namespace heed::perf {

GraphGradientTensors::GraphGradientTensors(const GraphTensors& forward)
    : grad_out(forward.out.type(), forward.out.size()),
      query(forward.query.type(), forward.query.size()),
      key(forward.key.type(), forward.key.size()),
      value(forward.value.type(), forward.value.size()),
      bias(forward.bias.type(), forward.bias.size()) {
  fill_random(grad_out, 9);
  for (Tensor* const result : {&query, &key, &value, &bias}) fill_with_nan(*result);
}

namespace {

heed_graph_attention_backward_desc backward_desc(const heed_graph_attention_desc& attention) {
  heed_graph_attention_backward_desc desc = HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT;
  desc.attention = &attention;
  desc.grad_out.dtype = attention.out.dtype;
  desc.grad_query.dtype = attention.query.dtype;
  desc.grad_key.dtype = attention.key.dtype;
  desc.grad_value.dtype = attention.value.dtype;
  return desc;
}

heed_graph_attention_backward_args arguments(GraphGradientTensors& gradients,
                                             const heed_graph_attention_args& attention) {
  heed_graph_attention_backward_args args = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;
  args.attention = &attention;
  args.grad_out = gradients.grad_out.data();
  args.grad_query = gradients.query.data();
  args.grad_key = gradients.key.data();
  args.grad_value = gradients.value.data();
  args.grad_edge_bias = gradients.bias.data();
  return args;
}

GraphBackwardPlan plan_of(const Context& context, const Graph& graph,
                          const heed_graph_attention_desc& attention) {
  const heed_graph_attention_backward_desc desc = backward_desc(attention);
  return made(heed_graph_attention_backward_plan_create, heed_graph_attention_backward_plan_destroy,
              context.get(), graph.get(), &desc);
}

}  // namespace

GraphGradients::GraphGradients(const GraphWorkload& workload, const Context& context)
    : forward_(workload, context),
      plan_([&] {
        const Clock::time_point start = Clock::now();
        const Graph graph = make_graph(*forward_.edges(), context, true);
        build_seconds_ = seconds_since(start);
        return plan_of(context, graph, workload.desc);  // it holds the graph
      }()),
      info_(described(heed_graph_attention_backward_plan_describe, plan_.get(),
                      HEED_GRAPH_ATTENTION_INFO_INIT)),
      gradients_(std::make_shared<GraphGradientTensors>(*forward_.tensors())),
      args_(forward_.tensors()->args()),
      workspace_(info_.workspace_bytes) {
  args_.lse = args_.weights = nullptr;
  backward_args_ = arguments(*gradients_, args_);
  (*this)();
  accuracy_ = check_gradients(workload, *forward_.edges(), *forward_.tensors(), *gradients_,
                              static_cast<std::int64_t>(info_.tasks));
  demand(accuracy_, workload.name);
}

void GraphGradients::operator()() {
  check(heed_graph_attention_backward_plan_run(plan_.get(), &backward_args_, workspace_.data(),
                                               workspace_.bytes()));
}

namespace {

constexpr std::int64_t kNodes = 24;
constexpr std::int64_t kMostEdges = 4096;  // that a node's gradients may come from

/// Some nodes, and where the edges from each lead: edges count from the first of the graph.
std::map<std::int64_t, std::vector<std::int64_t>> destinations_of_some(const Edges& edges) {
  const std::int64_t visited = std::min(edges.nodes(), kNodes);
  std::map<std::int64_t, std::vector<std::int64_t>> found;
  for (std::int64_t i = 0; i < visited; ++i)
    found[visited > 1 ? i * (edges.nodes() - 1) / (visited - 1) : 0] = {};
  for (std::int64_t n = 0; n < edges.nodes(); ++n)
    for (std::int64_t e = edges.offsets[static_cast<std::size_t>(n)];
         e < edges.offsets[static_cast<std::size_t>(n) + 1]; ++e) {
      const auto of = found.find(edges.sources[static_cast<std::size_t>(e)]);
      if (of != found.end()) of->second.push_back(n);
    }
  return found;
}

/// The edges that a node's gradients come from: all into it, and all into where its own lead.
class Around {
 public:
  Around(const Edges& edges, std::int64_t node, const std::vector<std::int64_t>& destinations) {
    std::set<std::int64_t> into(destinations.begin(), destinations.end());
    into.insert(node);
    number(node);
    for (const std::int64_t n : into) {
      const std::int64_t first = edges.offsets[static_cast<std::size_t>(n)];
      for (std::int64_t e = first; e < first + edges.degree(n); ++e) {
        list.add(number(edges.sources[static_cast<std::size_t>(e)]), number(n));
        given.push_back(e);
      }
    }
    list.nodes = static_cast<std::int64_t>(nodes.size());
  }

  oracle::EdgeList list;
  std::vector<std::int64_t> nodes, given;  ///< what numbers of the whole graph theirs are

 private:
  std::int64_t number(std::int64_t node) {
    const auto [at, added] = numbers_.emplace(node, static_cast<std::int64_t>(nodes.size()));
    if (added) nodes.push_back(node);
    return at->second;
  }
  std::map<std::int64_t, std::int64_t> numbers_;
};

Tensor rows_of(const Tensor& from, const std::vector<std::int64_t>& rows, std::int64_t width) {
  if (from.size() == 0) return {from.type(), 0};
  Tensor some(from.type(), static_cast<std::int64_t>(rows.size()) * width);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::int64_t x = 0; x < width; ++x)
      some.set(static_cast<std::int64_t>(r) * width + x, from[rows[r] * width + x]);
  return some;
}

}  // namespace

Accuracy check_gradients(const GraphWorkload& w, const Edges& edges, GraphTensors& tensors,
                         GraphGradientTensors& gradients, std::int64_t parts) {
  Accuracy accuracy;
  for (const auto& one : destinations_of_some(edges)) {
    const std::int64_t node = one.first;
    const std::vector<std::int64_t>& destinations = one.second;
    std::int64_t count = edges.degree(node);
    for (const std::int64_t n : destinations) count += edges.degree(n);
    if (count > kMostEdges) continue;
    const Around around(edges, node, destinations);
    const std::vector<std::int64_t>& nodes = around.nodes;
    GraphTensors some(
        tensors,
        [&](const Tensor& from, std::int64_t width, bool over_edges) {
          return rows_of(from, over_edges ? around.given : nodes, width);
        },
        w);
    GraphGradientTensors of_some(some);
    of_some.grad_out = rows_of(gradients.grad_out, nodes, value_width(w));
    heed_graph_attention_args args = some.args();
    args.lse = args.weights = nullptr;
    const heed_graph_attention_backward_desc desc = backward_desc(w.desc);
    const oracle::ExpectedGraphGradients want =
        oracle::expect_gradients({desc, arguments(of_some, args), around.list}, parts);
    const auto compare = [&](const Tensor& got, const std::vector<oracle::Element>& all,
                             std::int64_t features) {
      const std::int64_t rows = around.list.nodes;
      for (std::int64_t h = 0; h < w.desc.heads; ++h)
        for (std::int64_t x = 0; x < features; ++x)
          accuracy.compare(got[(node * w.desc.heads + h) * features + x],
                           all[static_cast<std::size_t>(h * rows * features + x)]);
    };
    compare(gradients.query, want[oracle::kOfQuery], w.desc.features);
    compare(gradients.key, want[oracle::kOfKey], w.desc.features);
    compare(gradients.value, want[oracle::kOfValue], w.desc.value_features);
  }
  return accuracy;
}

}  // namespace heed::perf
