// Gradients of attention over a graph, planned and run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/graph/plan.hpp"

namespace heed {

/// One problem: the descriptor after its defaults are filled in and its fields are checked against
/// the graph.
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

/// The arguments of a run, and of its attention as this library knows them.
struct GraphBackwardArgs {
  heed_graph_attention_backward_args given;
  heed_graph_attention_args attention;

  explicit GraphBackwardArgs(const heed_graph_attention_backward_args& args);
};

/// Throws unless a run has the tensors that it needs.
void validate(const GraphBackwardProblem& problem, const GraphBackwardArgs& args, Backend backend);

/// Offsets, in values, into the sums of a node or of a hub's split: the sums of its query, or key,
/// come first, [heads][features].
struct NodeSums {
  GraphSizes s;
  std::int64_t values = (s.heads * s.features).value();
  /// Edge data times gradients of scores, and times probabilities.
  std::int64_t edge_keys = (Size(values) + s.heads * s.value_features).value();
  std::int64_t edge_values = (Size(edge_keys) + s.heads * s.edge_width).value();
  std::int64_t numbers = (Size(edge_values) + s.heads * s.edge_width).value();
};

/// One thread's buffers beside the slab of the attention.
struct GraphBackwardSlab : GraphBuffers {
  std::size_t grad = numbers(s.heads, s.value_features);   ///< of a result; by source: its value
  std::size_t edge_grad = numbers(s.heads, s.edge_width);  ///< W_edge_value times that
  std::size_t lse = numbers(s.padded_heads, 1);            ///< log2 units
  std::size_t shift = numbers(s.padded_heads, 1);          ///< comes off scores before lse does
  std::size_t delta = numbers(s.padded_heads, 1);
  std::size_t gradients = numbers(kEdges, kPanel);          ///< of probabilities, then of scores
  std::size_t tanh = numbers(kEdges, kPanel);               ///< of scores over the softcap
  std::size_t keys = numbers(kRows * s.features, s.heads);  ///< rows that are copied
  std::size_t values = numbers(kRows * s.value_features, s.heads);
  std::size_t edge_rows = numbers(kEdges, s.edge_width);  ///< gradients of edge data
  std::size_t score_weights = numbers(s.activates ? s.features : 0, s.heads);
  std::size_t slopes = numbers(s.activates ? kEdges * s.features : 0, s.heads);  ///< of act()
  std::size_t bias_sums = numbers(kEdges, 1);  ///< gradients of a bias for all heads
  std::size_t sums = numbers(node_sums(), 1);
  std::size_t rows = numbers(3, widest_row());  ///< on their way in or out
  std::size_t bytes = 0;

 private:
  std::int64_t node_sums() const { return NodeSums{s}.numbers; }
  std::int64_t widest_row() const {
    return std::max({(s.heads * s.features).value(), (s.heads * s.value_features).value(),
                     s.width.value(), s.edge_width.value(), s.padded_heads.value()});
  }
};

/// Offsets into the workspace.
struct GraphBackwardSpace {
  std::size_t states;      ///< [steps - 1][nodes][width] data of later steps, of out's type
  std::size_t lse;         ///< [nodes][2][heads] log-sum-exp in log2 units, then delta
  std::size_t lse_rest;    ///< [nodes][heads] what lse lacks, where it has lost digits
  std::size_t grad;        ///< [nodes][heads][value_features], unless heads are side by side in out
  std::size_t asked_keys;  ///< [nodes][heads][edge_width] W_edge_key times scaled queries
  std::size_t asked_values;  ///< [nodes][heads][edge_width] W_edge_value times grad
  std::size_t edge_keys;     ///< [nodes][heads][edge_width] as in NodeSums
  std::size_t edge_values;
  std::size_t head_terms;    ///< [ranges] RangeSums of head weights
  std::size_t head_sums;     ///< [heads] double, of these
  std::size_t score_terms;   ///< [ranges] RangeSums of weights
  std::size_t edge_terms;    ///< [ranges] RangeSums of W_edge_key
  std::size_t score_sums;    ///< [heads][features] double, of score_terms
  std::size_t splits;        ///< [splits] NodeSums
  std::size_t made[3];       ///< [nodes][heads][features] gradients of queries, keys and values
  std::size_t grad_data[2];  ///< [nodes][width] of a step, and of the one after it
  std::size_t w[3];  ///< [width][heads][features] of all steps so far, if all nodes share them
  std::size_t w_edge_key;  ///< [heads][edge_width][features] likewise
  std::size_t w_edge_value;
  std::size_t slabs;  ///< [workers] NodeSlab and GraphBackwardSlab, or a product's slab
  std::size_t slab_bytes;
  std::size_t bytes;
};

/// Products over nodes: gradients of matrices, and of data.
struct GraphBackwardMatmuls {
  MatmulPlan w_keys, w_values;        ///< data^T times gradients of queries or keys, of values
  MatmulPlan keys, values;            ///< such gradients times transposed matrices
  MatmulPlan edge_keys, edge_values;  ///< of one head
};

}  // namespace heed

/// The C API's opaque type.
struct heed_graph_attention_backward_plan {
  const heed_context* context;
  const heed_graph* graph;
  heed::GraphBackwardProblem problem;
  heed_graph_attention_plan attention;  ///< of one step; its workspace comes first
  std::int64_t outgoing_per_claim;
  double gathered_bytes;
  std::uint32_t workers;
  heed::GraphBackwardMatmuls matmuls;
  heed::GraphBackwardSlab slab;
  heed::NodeSums sums;
  heed::GraphBackwardSpace space;

  std::size_t workspace_bytes() const { return space.bytes; }
};

namespace heed {

/// Does not share context or graph.
heed_graph_attention_backward_plan make_plan(const heed_context& context, const heed_graph& graph,
                                             const GraphBackwardProblem& problem);

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_graph_attention_backward_plan& plan,
              const heed_graph_attention_backward_args& args, void* workspace, std::size_t bytes);

/// HEED_VERBOSE=1: one line on stderr for each run.
void print_run(const heed_graph_attention_backward_plan& plan,
               const heed_graph_attention_backward_args& args, double seconds) noexcept;

}  // namespace heed
