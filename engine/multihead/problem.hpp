// One multi-head block: the descriptor after its defaults are filled in and its fields are checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/heed.h"
#include "engine/dense/operands.hpp"
#include "engine/dense/problem.hpp"
#include "engine/projection/weights.hpp"

namespace heed {

struct MultiheadProblem {
  Problem attention;  ///< over the projections; the plan says where in the workspace they lie
  heed_combine combine;
  std::int64_t width_query, width_key, width_out;
  std::int64_t query_rows;  ///< of input_query, all batch items together
  std::int64_t key_rows;
  std::int64_t queries_width, keys_width, values_width;  ///< of all heads together
  std::int64_t heads_width;                              ///< of the rows that W_out multiplies
  Layout input_query, input_key, out;
  Matrix w_query, w_key, w_value;
  Matrix w_out;         ///< if has_w_out()
  Layout bias;          ///< of every bias
  bool one_input_fits;  ///< input_query may serve as input_key
  bool keep;            ///< a run leaves the tensors that gradients need

  bool float64() const { return attention.float64; }
  /// Heads that have a matrix of their own in W_out; 0: they share one.
  std::int64_t w_out_heads() const {
    return combine == HEED_COMBINE_TENSOR ? attention.query_heads : 0;
  }
  bool has_w_out() const {
    return combine == HEED_COMBINE_CONCAT || combine == HEED_COMBINE_TENSOR;
  }
};

/// The descriptor of the attention inside, with its types filled in, if it may be a block's.
heed_attention_desc read_attention(const heed_multihead_desc& desc);

/// Throws an Error that names the field, its value and the bound.
MultiheadProblem validate(const heed_multihead_desc& desc);

/// The arguments of the attention inside, or defaults if none are given.
heed_attention_args read_attention_args(const heed_multihead_args& args);

/// Throws unless the arguments of a run make sense, except for out. `attention` is
/// args.attention with the projections' places filled in, `products` what prepared matrices must be
/// prepared for, and `kept_bytes` what args.kept must have.
void validate(const MultiheadProblem& problem, const heed_multihead_args& args,
              const heed_attention_args& attention, const PreparedFor& products,
              std::size_t kept_bytes);

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

using BlockApi = Structs<heed_multihead_desc, heed_multihead_args, MultiheadProblem>;
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
