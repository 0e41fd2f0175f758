// One problem of gradients over a graph: the descriptor after its defaults are filled in and its
// fields are checked against the graph.
#pragma once

#include "engine/graph/problem.hpp"

namespace heed {

struct GraphBackwardProblem {
  GraphProblem attention;
  bool accumulate;
  bool sums_bias;  ///< the bias is one for all heads, and so is its gradient
  Layout grad_out, grad_lse;
  Layout grad_query, grad_key, grad_value;  ///< used where args give one, all of them
  Layout grad_data, grad_edge_data, grad_edge_bias;
  Matrix grad_w_query, grad_w_key, grad_w_value;
  Matrix grad_w_edge_key, grad_w_edge_value;
};

/// Throws an Error that names the field, its value and the bound.
GraphBackwardProblem validate(const heed_graph& graph,
                              const heed_graph_attention_backward_desc& desc);

/// The arguments of a run, with those of its attention as this library knows them.
struct GraphBackwardArgs {
  heed_graph_attention_backward_args given;
  heed_graph_attention_args attention;

  explicit GraphBackwardArgs(const heed_graph_attention_backward_args& args);
};

/// Throws unless a run has the tensors that it needs.
void validate(const GraphBackwardProblem& problem, const GraphBackwardArgs& args, Backend backend);

}  // namespace heed
