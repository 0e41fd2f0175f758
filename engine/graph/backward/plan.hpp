// How gradients over a graph are laid out in the workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/graph/backward/problem.hpp"
#include "engine/graph/plan.hpp"

namespace heed {

/// Offsets, in bytes, into what one thread works in beside the slab of the attention. Features and
/// edge_width are padded, heads to whole panels.
struct GraphBackwardSlab {
  std::size_t grad;       ///< [heads][value_features] of a node's result; by source: its value
  std::size_t edge_grad;  ///< [heads][edge_width] W_edge_value times that
  std::size_t lse;        ///< [heads] log2 units
  std::size_t shift;      ///< [heads] comes off scores before lse does
  std::size_t delta;      ///< [heads]
  std::size_t gradients;  ///< [kBatch][kMaxPanel] of probabilities, then of scores
  std::size_t tanh;       ///< [kBatch][kMaxPanel] of scores over the softcap
  std::size_t keys;       ///< [kBatch][heads][features] rows that are copied
  std::size_t values;     ///< [kBatch][heads][value_features]
  std::size_t edge_rows;  ///< [kBatch][edge_width] gradients of edge data
  std::size_t bias_sums;  ///< [kBatch] gradients of a bias for all heads
  std::size_t sums;       ///< see NodeSums
  std::size_t rows;       ///< [2][the widest row] on its way in or out
  std::size_t bytes;
};

/// Offsets, in numbers, into the sums of a node or of a hub's split.
struct NodeSums {
  std::int64_t features;     ///< [heads][features] of a query or key
  std::int64_t values;       ///< [heads][value_features] of a value
  std::int64_t edge_keys;    ///< [heads][edge_width] edge data times gradients of scores
  std::int64_t edge_values;  ///< [heads][edge_width] edge data times probabilities
  std::int64_t numbers;
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
  std::size_t head_terms;  ///< [parts][heads] double, of head weights; then [heads] their sums
  std::size_t splits;      ///< [splits] NodeSums
  std::size_t query;       ///< [nodes][heads][features] gradients of projections
  std::size_t key;
  std::size_t value;
  std::size_t grad_data[2];  ///< [nodes][width] of a step, and of the one after it
  std::size_t w_query;  ///< [width][heads][features] of all steps so far, if all nodes share it
  std::size_t w_key;
  std::size_t w_value;
  std::size_t w_edge_key;  ///< [heads][edge_width][features] likewise
  std::size_t w_edge_value;
  std::size_t slabs;  ///< [workers] NodeSlab and GraphBackwardSlab, or that of a product
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

}  // namespace heed
