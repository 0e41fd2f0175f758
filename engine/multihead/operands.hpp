// The tensors of a multi-head block, beside those of its attention: one row for each.
#pragma once

#include "engine/dense/operands.hpp"
#include "engine/multihead/problem.hpp"

namespace heed {

// ---- Axes -------------------------------------------------------------------------------------

using BlockWidth = std::int64_t MultiheadProblem::*;

template <BlockWidth kWidth>
Axes block_query_axes(const MultiheadProblem& p) {
  return rows_of_queries(p.attention, 1, p.*kWidth);
}
template <BlockWidth kWidth>
Axes block_key_axes(const MultiheadProblem& p) {
  return rows_of_keys(p.attention, 1, p.*kWidth);
}
template <BlockWidth kIn, BlockWidth kOut>
Axes block_matrix_axes(const MultiheadProblem& p) {
  return {{1, 1, p.*kIn, p.*kOut}, kMatrixNames, Nesting::kOneMatrix};
}
/// Heads share a W_out, or have one each.
inline Axes w_out_axes(const MultiheadProblem& p) {
  if (p.w_out_heads() == 0)
    return {{1, 1, p.heads_width, p.width_out}, kMatrixNames, Nesting::kOneMatrix};
  return {{p.w_out_heads(), 1, p.attention.value_features, p.width_out},
          kMatrixNames,
          Nesting::kStacked};
}
template <BlockWidth kWidth>
Axes block_bias_axes(const MultiheadProblem& p) {
  return vector_axes(p.*kWidth);
}
inline Axes block_head_axes(const MultiheadProblem& p) {
  return vector_axes(p.attention.query_heads);
}

inline constexpr BlockWidth kWidthQuery = &MultiheadProblem::width_query;
inline constexpr BlockWidth kWidthKey = &MultiheadProblem::width_key;
inline constexpr BlockWidth kWidthOut = &MultiheadProblem::width_out;
inline constexpr BlockWidth kQueriesWidth = &MultiheadProblem::queries_width;
inline constexpr BlockWidth kKeysWidth = &MultiheadProblem::keys_width;
inline constexpr BlockWidth kValuesWidth = &MultiheadProblem::values_width;

// ---- The table --------------------------------------------------------------------------------

inline constexpr Condition<MultiheadProblem> kHasWOut = {
    [](const MultiheadProblem& p) { return p.has_w_out(); },
    "unless desc.combine is HEED_COMBINE_CONCAT (0) or HEED_COMBINE_TENSOR (4)",
    Condition<MultiheadProblem>::kResolved};

struct BlockApi {
  using Desc = heed_multihead_desc;
  using Args = heed_multihead_args;
  using Checked = MultiheadProblem;
};
#define TENSOR(field) HEED_TENSOR(BlockApi, field)
#define VECTOR(field) HEED_VECTOR(BlockApi, field)
#define BIAS(field) HEED_VECTOR_AS(BlockApi, field, &MultiheadProblem::bias)

inline constexpr Operand<MultiheadProblem> kBlockOperands[] = {
    option(TENSOR(w_query), block_matrix_axes<kWidthQuery, kQueriesWidth>).told(),
    option(BIAS(b_query), block_bias_axes<kQueriesWidth>).told(),
    option(TENSOR(w_key), block_matrix_axes<kWidthKey, kKeysWidth>).told(),
    option(BIAS(b_key), block_bias_axes<kKeysWidth>).told(),
    option(TENSOR(w_value), block_matrix_axes<kWidthKey, kValuesWidth>).told(),
    option(BIAS(b_value), block_bias_axes<kValuesWidth>).told(),
    option(TENSOR(w_out), w_out_axes).only(kHasWOut).told(),
    option(BIAS(b_out), block_bias_axes<kWidthOut>).only(kHasWOut).told(),
    option(VECTOR(head_weights), block_head_axes).told(),
    input(TENSOR(input_query), block_query_axes<kWidthQuery>).without_heads(),
    input(TENSOR(input_key), block_key_axes<kWidthKey>)
        .when_given(Needed::kOnlyWithElements)
        .with(Types::kArithmetic)
        .without_heads(),
    output(TENSOR(out), block_query_axes<kWidthOut>).with(Types::kArithmetic).without_heads(),
};

#undef TENSOR
#undef VECTOR
#undef BIAS

}  // namespace heed
