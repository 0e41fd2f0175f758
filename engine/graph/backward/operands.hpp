// The tensors of gradients over a graph, beside the attention's own.
#pragma once

#include "engine/graph/backward/plan.hpp"
#include "engine/graph/operands.hpp"

namespace heed {

/// The axes of a tensor of the attention.
template <Axes (*kOf)(const GraphProblem&)>
Axes axes_like(const GraphBackwardProblem& p) {
  return kOf(p.attention);
}
inline Axes edge_bias_axes(const GraphBackwardProblem& p) {
  return rows_of_edges(p.attention, p.sums_bias ? 1 : p.attention.heads, 1);
}

using GraphGradient = Condition<GraphBackwardProblem>;
inline constexpr GraphGradient kGradProjected = {
    [](const GraphBackwardProblem& p) { return p.attention.is_projected(); },
    "unless desc.attention->inputs is HEED_GRAPH_PROJECTED (0)", GraphGradient::kRefused};
inline constexpr GraphGradient kGradHasData = {
    [](const GraphBackwardProblem& p) { return p.attention.has_data(); }, "where nothing has data",
    GraphGradient::kRefused};
inline constexpr GraphGradient kGradHasMatrices = {
    [](const GraphBackwardProblem& p) { return !p.attention.is_projected(); },
    "with desc.attention->inputs 0", GraphGradient::kRefused};
inline constexpr GraphGradient kGradHasEdgeData = {
    [](const GraphBackwardProblem& p) { return p.attention.edge_width > 0; },
    "with desc.attention->edge_width 0", GraphGradient::kRefused};

using GraphBackwardApi = Structs<heed_graph_attention_backward_desc,
                                 heed_graph_attention_backward_args, GraphBackwardProblem>;
#define TENSOR(field) HEED_TENSOR(GraphBackwardApi, field)
#define VECTOR(field) HEED_VECTOR(GraphBackwardApi, field)
#define INPUT(field) offsetof(heed_graph_attention_args, field)

/// Inputs of the attention have gradients where a run has the input, whether it needs or may lack
/// it.
constexpr Operand<GraphBackwardProblem> gradient(const TensorField<GraphBackwardProblem>& tensor,
                                                 AxesOf<GraphBackwardProblem> axes) {
  return wanted(tensor, axes).with(Types::kAsOut).told();
}

inline constexpr Operand<GraphBackwardProblem> kGraphBackwardOperands[] = {
    input(TENSOR(grad_out), axes_like<out_axes>).with(Types::kAsOut),
    option(TENSOR(grad_lse), axes_like<lse_axes>).with(Types::kDenominator).told(),
    gradient(TENSOR(grad_query), axes_like<query_axes>).only(kGradProjected).of(INPUT(query)),
    gradient(TENSOR(grad_key), axes_like<key_axes>).only(kGradProjected).of(INPUT(key)),
    gradient(TENSOR(grad_value), axes_like<value_axes>).only(kGradProjected).of(INPUT(value)),
    gradient(TENSOR(grad_data), axes_like<data_axes>).only(kGradHasData).of(INPUT(data)),
    gradient(TENSOR(grad_w_query), axes_like<matrix_axes<kToKeys>>)
        .only(kGradHasMatrices)
        .of(INPUT(w_query)),
    gradient(TENSOR(grad_w_key), axes_like<matrix_axes<kToKeys>>)
        .only(kGradHasMatrices)
        .of(INPUT(w_key)),
    gradient(TENSOR(grad_w_value), axes_like<matrix_axes<kToValues>>)
        .only(kGradHasMatrices)
        .of(INPUT(w_value)),
    gradient(VECTOR(grad_b_query), axes_like<bias_axes<kToKeys>>).of_given(INPUT(b_query)),
    gradient(VECTOR(grad_b_key), axes_like<bias_axes<kToKeys>>).of_given(INPUT(b_key)),
    gradient(VECTOR(grad_b_value), axes_like<bias_axes<kToValues>>).of_given(INPUT(b_value)),
    gradient(TENSOR(grad_edge_data), axes_like<edge_data_axes>)
        .only(kGradHasEdgeData)
        .of(INPUT(edge_data)),
    gradient(TENSOR(grad_w_edge_key), axes_like<edge_matrix_axes<kToKeys>>)
        .only(kGradHasEdgeData)
        .of_given(INPUT(w_edge_key)),
    gradient(TENSOR(grad_w_edge_value), axes_like<edge_matrix_axes<kToValues>>)
        .only(kGradHasEdgeData)
        .of_given(INPUT(w_edge_value)),
    gradient(TENSOR(grad_edge_bias), edge_bias_axes).with(Types::kAny).of_given(INPUT(edge_bias)),
    gradient(VECTOR(grad_head_weights), axes_like<head_axes>).of_given(INPUT(head_weights)),
    gradient(VECTOR(grad_score_weights), axes_like<score_weight_axes>)
        .of_given(INPUT(score_weights)),
};

#undef TENSOR
#undef VECTOR
#undef INPUT

}  // namespace heed
