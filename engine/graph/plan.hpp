// Attention over a graph, planned and run: how ranges are shared out, and the workspace they need.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/context/context.hpp"
#include "engine/graph/graph.hpp"
#include "engine/projection/matmul.hpp"
#include "engine/projection/weights.hpp"
#include "engine/runtime/workspace.hpp"
#include "engine/tensor/dropout.hpp"
#include "engine/tensor/layout.hpp"
#include "engine/tensor/scale.hpp"

namespace heed {

/// One problem: the descriptor after its defaults are filled in and its fields are checked against
/// the graph.
struct GraphProblem : Scaling {
  std::uint32_t dropout;  ///< of kDropoutValues; 0: none
  heed_graph_inputs inputs;
  heed_combine combine;
  bool residual;
  bool float64;  ///< the arithmetic's type: double, else float
  std::int64_t nodes;
  std::int64_t sources;  ///< nodes that edges lead from, whose rows keys and values have
  std::int64_t edges_given;
  std::int64_t heads;
  std::int64_t features;
  std::int64_t value_features;
  std::int64_t width;       ///< of data
  std::int64_t edge_width;  ///< 0: edges have no data
  std::int64_t steps;
  std::int64_t keys_width, values_width;  ///< features and value_features of all heads
  Layout query, key, value;               ///< as given, or of a plan in the workspace
  Layout data;                            ///< otherwise, and with residual
  Layout edge_data;                       ///< with edge_width
  Layout edge_bias, out, lse, weights;    ///< used where args give one
  Matrix w_query, w_key, w_value;         ///< one each, or one per node
  Matrix w_edge_key, w_edge_value;        ///< with edge_width
  Layout bias;                            ///< of b_query, b_key and b_value

  bool is_projected() const { return inputs == HEED_GRAPH_PROJECTED; }
  bool has_data() const { return !is_projected() || residual; }
  bool shares_matrices() const { return inputs == HEED_GRAPH_SHARED; }
  /// Whether rows of out must be copied to be the data of the next step.
  bool copies_data() const {
    return steps > 1 && out_heads() > 1 && out.strides.head != value_features * out.strides.feature;
  }
  /// Heads that out has.
  std::int64_t out_heads() const { return combine == HEED_COMBINE_CONCAT ? heads : 1; }
};

/// Throws an Error that names the field, its value and the bound.
GraphProblem validate(const heed_graph& graph, const heed_graph_attention_desc& desc);

/// Throws unless a run has exactly the tensors that the problem needs; `backend` is the context's.
void validate(const GraphProblem& problem, const heed_graph_attention_args& args, Backend backend);

/// The same of only the tensors that a run reads.
void validate_inputs(const GraphProblem& problem, const heed_graph_attention_args& args,
                     Backend backend);

/// The sizes that buffers are made of, padded as kernels want them.
struct GraphSizes {
  std::int64_t number = 0;  ///< bytes of one
  Size heads = 0;           ///< as they are
  Size padded_heads = 0, features = 0, value_features = 0, edge_width = 0, width = 0;
  bool hard = false;
  bool activates = false;                           ///< scores are no products
  Size score_weights = 0;                           ///< of a head
  bool copies_keys = false, copies_values = false;  ///< rows cannot be read where they lie
  Size matrix_row = 0;  ///< the longest row or column of a node's own matrix; 0: there is none
};
GraphSizes sizes_of(const heed_graph_attention_plan& plan);

/// Buffers of values of the arithmetic's type, laid out as they are declared: offsets, in bytes.
struct GraphBuffers {
  GraphSizes s;
  Offsets offsets;

  static constexpr auto kEdges = static_cast<std::int64_t>(kBatch);
  static constexpr auto kPanel = static_cast<std::int64_t>(kMaxPanel);
  /// Rows that are copied: of a batch, or of all that kernels of nodes take at once.
  static constexpr auto kRows = static_cast<std::int64_t>(kNodeEdges);
  std::size_t numbers(Size rows, Size columns) { return offsets.take(rows, columns, s.number); }
};

/// How softmax ends, of a node or of a hub's split: see SoftmaxState.
struct SoftmaxBuffers : GraphBuffers {
  std::size_t row_max = numbers(s.padded_heads, 1);
  std::size_t row_sum = numbers(s.padded_heads, 1);
  std::size_t chosen = offsets.take(s.hard ? s.heads : 0, 1, sizeof(std::int64_t));
  std::size_t values = numbers(s.heads, s.value_features);
  std::size_t edge_data = numbers(s.heads, s.edge_width);
};

/// The slab of workspace that one thread works in.
struct NodeSlab : SoftmaxBuffers {
  std::size_t query = numbers(s.heads, s.features);         ///< of one node, scaled
  std::size_t edge_query = numbers(s.heads, s.edge_width);  ///< W_edge_key times that
  std::size_t keys = numbers(s.copies_keys ? kRows * s.features : 0, s.heads);
  std::size_t value_rows = numbers(s.copies_values ? kRows * s.value_features : 0, s.heads);
  std::size_t edge_rows = numbers(kEdges, s.edge_width);
  std::size_t isolated =
      numbers(kEdges * widest(), s.heads);  ///< rows of any kind that heads leave out
  std::size_t bias = numbers(kPanel, kEdges);
  std::size_t scores = numbers(kEdges, kPanel);          ///< then probabilities
  std::size_t products = numbers(s.edge_width, kPanel);  ///< with matrices of edge data
  std::size_t score_weights = numbers(s.score_weights, s.heads);
  /// Where scores are no products: what act() makes of a batch.
  std::size_t activated = numbers(s.activates ? kEdges * s.features : 0, s.heads);
  std::size_t factors = numbers(s.padded_heads, 1);      ///< by which sums are multiplied
  std::size_t row = numbers(s.heads, s.value_features);  ///< of out
  std::size_t data = numbers(s.width, 1);
  std::size_t matrix = numbers(kEdges, s.matrix_row);  ///< copied rows
  std::size_t projected = numbers(s.matrix_row, 1);    ///< a row times a node's own matrix
  std::size_t bytes = 0;

 private:
  Size widest() const {
    return std::max({s.features.value(), s.value_features.value(), s.edge_width.value()});
  }
};

/// The results of a hub's split; sums are divided by row_sum.
struct SplitSlab : SoftmaxBuffers {
  /// double, relative to the hub's largest row_max.
  std::size_t lse = offsets.take(s.heads, 1, sizeof(double));
  std::size_t bytes = 0;
};

/// Offsets into the workspace.
struct GraphSpace {
  std::size_t splits;        ///< [splits] SplitSlab
  std::size_t w_edge_key;    ///< [edge_width][heads][features] Real
  std::size_t w_edge_value;  ///< [edge_width][heads][value_features]
  std::size_t data;       ///< [nodes][width] of later steps, where out does not lie as data should
  std::size_t query;      ///< [nodes][heads][features] unless given
  std::size_t key_value;  ///< [nodes] keys with values next to them: one place to gather from
  std::size_t slabs;      ///< [workers] NodeSlab or a product's slab
  std::size_t slab_bytes;
  std::size_t bytes;
};

/// The products of data with matrices that all nodes share.
struct GraphMatmuls {
  MatmulPlan keys, values;  ///< and queries as keys
};

}  // namespace heed

/// The C API's opaque type.
struct heed_graph_attention_plan {
  const heed_context* context;
  const heed_graph* graph;
  heed::GraphProblem problem;
  std::int64_t ranges_per_claim;  ///< so that a claim is worth its atomic increment
  std::uint32_t workers;
  std::uint32_t project_workers;
  heed::GraphMatmuls matmuls;  ///< with HEED_GRAPH_SHARED
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

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
              void* workspace, std::size_t bytes);

/// Computes the projections of the first step alone. Throws an Error as run_plan does.
heed_graph_projections project_plan(const heed_graph_attention_plan& plan,
                                    const heed_graph_attention_args& args, void* workspace,
                                    std::size_t bytes);

// ---- HEED_VERBOSE=1: one line on stderr for each run ---------------------------------------

/// The speed is the rate of gathering keys and values, as if a run did nothing else.
void print_run(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
               double seconds) noexcept;

/// The line of a run of any kind over a graph; `what` begins it, and steps gather so many bytes.
void print_graph(const char* what, const heed_graph_attention_plan& plan, const GraphProblem& p,
                 const heed_graph_attention_args& args, std::size_t tasks, double gathered_bytes,
                 double seconds) noexcept;

}  // namespace heed
