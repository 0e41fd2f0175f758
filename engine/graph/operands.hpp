// The tensors of attention over a graph: one row for each.
#pragma once

#include "engine/graph/plan.hpp"
#include "engine/tensor/operands.hpp"

namespace heed {

// ---- Axes -------------------------------------------------------------------------------------

inline constexpr AxisNames kNodeNames = {{nullptr, "head", "node", "feature"},
                                         {"", "heads", "nodes", "features"}};
inline constexpr AxisNames kEdgeNames = {{nullptr, "head", "edge", "feature"},
                                         {"", "heads", "edges", "features"}};

inline Axes rows_of_nodes(std::int64_t nodes, std::int64_t heads, std::int64_t features) {
  return {{1, heads, nodes, features}, kNodeNames, Nesting::kPackedRows};
}
inline Axes rows_of_edges(const GraphProblem& p, std::int64_t heads, std::int64_t features) {
  return {{1, heads, p.edges_given, features}, kEdgeNames, Nesting::kPackedRows};
}

inline Axes query_axes(const GraphProblem& p) {
  return rows_of_nodes(p.nodes, p.heads, p.features);
}
inline Axes key_axes(const GraphProblem& p) {
  return rows_of_nodes(p.sources, p.heads, p.features);
}
inline Axes value_axes(const GraphProblem& p) {
  return rows_of_nodes(p.sources, p.heads, p.value_features);
}
inline Axes data_axes(const GraphProblem& p) { return rows_of_nodes(p.nodes, 1, p.width); }
inline Axes out_axes(const GraphProblem& p) {
  return rows_of_nodes(p.nodes, p.out_heads(), p.value_features);
}
inline Axes lse_axes(const GraphProblem& p) { return rows_of_nodes(p.nodes, p.heads, 1); }
inline Axes edge_data_axes(const GraphProblem& p) { return rows_of_edges(p, 1, p.edge_width); }
inline Axes edge_number_axes(const GraphProblem& p) { return rows_of_edges(p, p.heads, 1); }
inline Axes head_axes(const GraphProblem& p) { return vector_axes(p.heads); }
inline Axes listed_axes(const GraphProblem& p) { return vector_axes(p.edges_given); }

/// From data, and from edge data, to all heads of keys (and queries) or values. Nodes have one
/// matrix, or one each.
using Width = std::int64_t GraphProblem::*;
template <Width kOut>
Axes matrix_axes(const GraphProblem& p) {
  if (p.inputs == HEED_GRAPH_PER_NODE)
    return {{p.nodes, 1, p.width, p.*kOut}, kMatrixNames, Nesting::kApart};
  return {{1, 1, p.width, p.*kOut}, kMatrixNames, Nesting::kOneMatrix};
}
template <Width kOut>
Axes edge_matrix_axes(const GraphProblem& p) {
  return {{1, 1, p.edge_width, p.*kOut}, kMatrixNames, Nesting::kOneMatrix};
}
template <Width kOut>
Axes bias_axes(const GraphProblem& p) {
  return vector_axes(p.*kOut);
}
inline Axes score_weight_axes(const GraphProblem& p) {
  return vector_axes(p.heads * weights_of_head(p.score, p.features));
}
inline constexpr Width kToKeys = &GraphProblem::keys_width;
inline constexpr Width kToValues = &GraphProblem::values_width;

// ---- Conditions -------------------------------------------------------------------------------

using GraphCondition = Condition<GraphProblem>;
inline constexpr GraphCondition kProjected = {
    [](const GraphProblem& p) { return p.is_projected(); },
    "unless desc.inputs is HEED_GRAPH_PROJECTED (0)", GraphCondition::kRefused};
inline constexpr GraphCondition kHasData = {[](const GraphProblem& p) { return p.has_data(); },
                                            "with desc.inputs 0 and desc.residual 0",
                                            GraphCondition::kRefused, "where nothing has data"};
inline constexpr GraphCondition kHasMatrices = {
    [](const GraphProblem& p) { return !p.is_projected(); }, "with desc.inputs 0",
    GraphCondition::kRefused};
inline constexpr GraphCondition kSharesMatrices = {
    [](const GraphProblem& p) { return p.shares_matrices(); },
    "unless desc.inputs is HEED_GRAPH_SHARED (1)"};
inline constexpr GraphCondition kHasEdgeData = {
    [](const GraphProblem& p) { return p.edge_width > 0; }, "with desc.edge_width 0",
    GraphCondition::kRefused};
inline constexpr GraphCondition kWeighsHeads = {
    [](const GraphProblem& p) { return p.combine == HEED_COMBINE_WEIGHTED; },
    "unless desc.combine is HEED_COMBINE_WEIGHTED (1)"};
inline constexpr GraphCondition kDropsEdges = {[](const GraphProblem& p) { return p.dropout > 0; },
                                               "with desc.dropout 0"};
inline constexpr GraphCondition kSoftEdges = {[](const GraphProblem& p) { return !p.hard; },
                                              "with desc.hard, which has no denominator",
                                              GraphCondition::kResolved};

// ---- The table --------------------------------------------------------------------------------

using GraphApi = Structs<heed_graph_attention_desc, heed_graph_attention_args, GraphProblem>;
#define TENSOR(field) HEED_TENSOR(GraphApi, field)
#define VECTOR(field) HEED_VECTOR(GraphApi, field)
#define BIAS(field) HEED_VECTOR_AS(GraphApi, field, &GraphProblem::bias)

inline constexpr Operand<GraphProblem> kGraphOperands[] = {
    input(TENSOR(query), query_axes).only(kProjected).with(Types::kArithmetic),
    input(TENSOR(key), key_axes).only(kProjected).with(Types::kArithmetic),
    input(TENSOR(value), value_axes).only(kProjected).with(Types::kArithmetic),
    input(TENSOR(data), data_axes).only(kHasData).with(Types::kArithmetic),
    option(TENSOR(w_query), matrix_axes<kToKeys>).only(kHasMatrices).told(),
    option(TENSOR(w_key), matrix_axes<kToKeys>).only(kHasMatrices).told(),
    option(TENSOR(w_value), matrix_axes<kToValues>).only(kHasMatrices).told(),
    option(BIAS(b_query), bias_axes<kToKeys>).only(kSharesMatrices).told(),
    option(BIAS(b_key), bias_axes<kToKeys>).only(kSharesMatrices).told(),
    option(BIAS(b_value), bias_axes<kToValues>).only(kSharesMatrices).told(),
    input(TENSOR(edge_data), edge_data_axes).only(kHasEdgeData).with(Types::kArithmetic),
    option(TENSOR(w_edge_key), edge_matrix_axes<kToKeys>).only(kHasEdgeData).told(),
    option(TENSOR(w_edge_value), edge_matrix_axes<kToValues>).only(kHasEdgeData).told(),
    option(TENSOR(edge_bias), edge_number_axes).told(Odd::kOfBias),
    input(VECTOR(head_weights), head_axes).only(kWeighsHeads),
    input(VECTOR(score_weights), score_weight_axes).only(kWeighsScores<GraphProblem>),
    option(VECTOR(dropout_edges), listed_axes).only(kDropsEdges),
    output(TENSOR(out), out_axes),
    wanted(TENSOR(lse), lse_axes).with(Types::kDenominator).only(kSoftEdges),
    wanted(TENSOR(weights), edge_number_axes),
};

#undef TENSOR
#undef VECTOR
#undef BIAS

}  // namespace heed
