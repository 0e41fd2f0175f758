#include "tests/problem/graph_backward.hpp"

#include <stdexcept>

namespace heed_test {
namespace {

using Desc = heed_graph_attention_backward_desc;
using Args = heed_graph_attention_backward_args;

/// Strides that are all 0 are those of contiguous ones, unless they are explicit.
bool shares_bias(const heed_graph_attention_desc& d) {
  const heed_layout& bias = d.edge_bias;
  const bool stands = bias.reserved == HEED_STRIDES_EXPLICIT || bias.stride_batch != 0 ||
                      bias.stride_row != 0 || bias.stride_feature != 0;
  return d.heads > 1 && bias.stride_head == 0 && stands;
}

/// Gradients take matrices that are not prepared, and need data beside out.
GraphProblem as_it_is(GraphProblem problem) {
  problem.prepared = {};
  problem.in_place = false;
  return problem;
}

}  // namespace

LaidOutGradients<kGraphGradients> laid_out(Desc& d, const EdgeList& edges) {
  const heed_graph_attention_desc& a = *d.attention;
  const auto rows = [&](heed_layout& layout, std::size_t of, Use use) {
    Axes shape = shape_of(a, edges, of);
    if (of == kGraphEdgeBias && shares_bias(a)) shape[1] = 1;
    return LaidOut(layout, shape, real_dtype(a), use, true).without(0);
  };
  LaidOutGradients<kGraphGradients> all = {rows(d.grad_out, kGraphOut, Use::kRead),
                                           rows(d.grad_lse, kGraphLse, Use::kRead)};
  const auto of_rows = [&](std::size_t of, heed_layout& layout) {
    if (has(a, of)) all.of[of] = rows(layout, of, Use::kWritten);
  };
  of_rows(kGraphQuery, d.grad_query);
  of_rows(kGraphKey, d.grad_key);
  of_rows(kGraphValue, d.grad_value);
  of_rows(kGraphData, d.grad_data);
  of_rows(kGraphEdgeData, d.grad_edge_data);
  of_rows(kGraphEdgeBias, d.grad_edge_bias);
  const auto of_matrix = [&](std::size_t of, heed_matrix_layout& layout) {
    if (has(a, of)) all.of[of] = laid_out(layout, a, edges, of, Use::kWritten);
  };
  of_matrix(kGraphWQuery, d.grad_w_query);
  of_matrix(kGraphWKey, d.grad_w_key);
  of_matrix(kGraphWValue, d.grad_w_value);
  of_matrix(kGraphWEdgeKey, d.grad_w_edge_key);
  of_matrix(kGraphWEdgeValue, d.grad_w_edge_value);
  for (const std::size_t of :
       {kGraphBQuery, kGraphBKey, kGraphBValue, kGraphHeadWeights, kGraphScoreWeights})
    if (has(a, of))
      all.of[of] = LaidOut(shape_of(a, edges, of)[3], nullptr, real_dtype(a), Use::kWritten);
  return all;
}

GraphBackwardProblem::GraphBackwardProblem(GraphProblem problem, std::uint64_t seed,
                                           const Form& of_out)
    : GraphBackwardProblem(std::move(problem), HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT) {
  give_grad_out(seed, of_out);
}

GraphBackwardProblem::GraphBackwardProblem(GraphProblem problem, const Desc& desc)
    : GradientProblem(desc), forward(as_it_is(std::move(problem))) {}

LaidOutGradients<kGraphGradients> GraphBackwardProblem::laid_out() {
  desc();
  return heed_test::laid_out(desc_, forward.edges);
}

const Desc& GraphBackwardProblem::desc() {
  desc_.attention = &forward.desc;
  return desc_;
}

Args GraphBackwardProblem::args() {
  Args args = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;
  forward_args_ = forward.args();
  args.attention = &forward_args_;
  give(args, {&Args::grad_query, &Args::grad_key, &Args::grad_value, &Args::grad_data,
              &Args::grad_w_query, &Args::grad_w_key, &Args::grad_w_value, &Args::grad_b_query,
              &Args::grad_b_key, &Args::grad_b_value, &Args::grad_edge_data, &Args::grad_w_edge_key,
              &Args::grad_w_edge_value, &Args::grad_edge_bias, &Args::grad_head_weights,
              &Args::grad_score_weights});
  return args;
}

ExpectedGraphGradients GraphBackwardProblem::expected() {
  begin();
  return expect_gradients({forward.given(), given()});
}

GraphGradients GraphBackwardProblem::run(const Context& context, const Graph& graph) {
  begin();
  const Outputs of_attention = forward.outputs();
  run_plan(make_plan(context, graph, desc()), args());
  if (!same_bits(forward.outputs(), of_attention))
    throw std::runtime_error("wrote an output of attention");
  return got();
}

GraphGradients GraphBackwardProblem::run(const Context& context, GraphForm form) {
  form.reverse = true;
  return run(context, make_graph(context, forward.edges, form));
}

std::string line_of(const GraphBackwardProblem& p) {
  return line_of(p.forward) + line_of_gradients(p);
}

}  // namespace heed_test
