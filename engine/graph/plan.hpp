// How attention over a graph is run: how parts are shared out, and the workspace they need.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/graph/graph.hpp"
#include "engine/graph/problem.hpp"
#include "engine/projection/matmul.hpp"
#include "engine/runtime/sizes.hpp"

namespace heed {

/// The sizes that buffers are made of, padded as kernels want them.
struct GraphSizes {
  std::int64_t number;  ///< bytes of one
  Size heads;           ///< as they are
  Size padded_heads, features, value_features, edge_width, width;
};
GraphSizes sizes_of(const GraphProblem& problem);

/// Offsets, in bytes, into the slab of workspace that one thread works in. Numbers are of the
/// arithmetic's type; features and edge_width are padded for the kernels (gather.hpp), heads to
/// whole panels.
struct NodeSlab {
  std::size_t query;       ///< [heads][features] of one node, scaled
  std::size_t edge_query;  ///< [heads][edge_width] W_edge_key times the node's query
  std::size_t keys;        ///< [kBatch][heads][features] rows, if they must be copied
  std::size_t values;      ///< [kBatch][heads][value_features], likewise
  std::size_t edge_data;   ///< [kBatch][edge_width]
  std::size_t isolated;    ///< [kBatch][heads] rows of any kind where heads leave edges out
  std::size_t bias;        ///< [heads of a panel][kBatch]
  std::size_t scores;      ///< [kBatch][kMaxPanel] scores, then probabilities
  std::size_t products;    ///< [edge_width][kMaxPanel] products with matrices of edge data
  std::size_t row_max;     ///< [heads] see RowState
  std::size_t row_sum;     ///< [heads]
  std::size_t factors;     ///< [heads] by which sums are multiplied
  std::size_t chosen;      ///< [heads] int64: the edge of the largest score; hard attention only
  std::size_t sums;        ///< [heads][value_features] weighted values
  std::size_t edge_sums;   ///< [heads][edge_width] weighted edge data
  std::size_t row;         ///< [heads][value_features] of out
  std::size_t data;        ///< [width] of data
  std::size_t matrix;      ///< [kBatch][features in or out] copied rows of a node's matrix
  std::size_t projected;   ///< [the longer of the two] a row times such a matrix
  std::size_t bytes;
};

/// Offsets within the results of a hub's split.
struct SplitSlab {
  std::size_t row_max;
  std::size_t row_sum;
  std::size_t lse;  ///< [heads] double, relative to the hub's largest row_max
  std::size_t chosen;
  std::size_t sums;       ///< divided by `sum`
  std::size_t edge_sums;  ///< likewise
  std::size_t bytes;
};

/// Offsets into the workspace.
struct GraphSpace {
  std::size_t splits;        ///< [splits] SplitSlab
  std::size_t w_edge_key;    ///< [edge_width][heads][features] Real
  std::size_t w_edge_value;  ///< [edge_width][heads][value_features]
  std::size_t data;       ///< [nodes][width] of later steps, where out does not lie as data should
  std::size_t query;      ///< [nodes][heads][features] unless given
  std::size_t key_value;  ///< [nodes] keys with values next to them: one place to gather from
  std::size_t slabs;      ///< [workers] NodeSlab or that of a product
  std::size_t slab_bytes;
  std::size_t bytes;
};

/// The products of data with matrices that all nodes share.
struct GraphMatmuls {
  MatmulPlan query, key, value;
};

}  // namespace heed

/// The C API's opaque type.
struct heed_graph_attention_plan {
  const heed_context* context;
  const heed_graph* graph;
  heed::GraphProblem problem;
  std::int64_t parts_per_claim;  ///< so that a claim is worth its atomic increment
  std::uint32_t workers;
  std::uint32_t project_workers;
  heed::GraphMatmuls matmuls;      ///< with HEED_GRAPH_SHARED
  heed::Layout query, key, value;  ///< where edges read them: as given, or in the workspace
  double gathered_bytes;
  heed::NodeSlab slab;
  heed::SplitSlab split;
  heed::GraphSpace space;

  std::size_t workspace_bytes() const { return space.bytes; }
};

namespace heed {

/// Does not share context or graph. Whatever decides bits depends on graph, problem and instruction
/// set alone.
heed_graph_attention_plan make_plan(const heed_context& context, const heed_graph& graph,
                                    const GraphProblem& problem);

// ---- HEED_VERBOSE=1: one line on stderr for each run ---------------------------------------

/// The speed is the rate of gathering keys and values, as if a run did nothing else.
void print_run(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
               double seconds) noexcept;

/// The line of a run of any kind over a graph; `what` begins it, and steps gather so many bytes.
void print_graph(const char* what, const heed_graph_attention_plan& plan, const GraphProblem& p,
                 const heed_graph_attention_args& args, std::size_t tasks, double gathered_bytes,
                 double seconds) noexcept;

}  // namespace heed
