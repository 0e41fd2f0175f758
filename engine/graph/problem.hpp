// One problem of attention over a graph: the descriptor after its defaults are filled in and its
// fields are checked against the graph.
#pragma once

#include <cstdint>

#include "api/heed.h"
#include "engine/context/context.hpp"
#include "engine/projection/weights.hpp"
#include "engine/tensor/layout.hpp"
#include "engine/tensor/scale.hpp"

namespace heed {

struct GraphProblem : Scaling {
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
  Layout query, key, value;               ///< with HEED_GRAPH_PROJECTED
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

/// Throws unless a run has exactly the tensors that the problem needs; `product` is the context's.
void validate(const GraphProblem& problem, const heed_graph_attention_args& args, Backend backend);

/// The same of what a run reads alone.
void validate_inputs(const GraphProblem& problem, const heed_graph_attention_args& args,
                     Backend backend);

}  // namespace heed
