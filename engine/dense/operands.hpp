// The tensors of dense attention: one row for each.
#pragma once

#include "engine/dense/problem.hpp"
#include "engine/runtime/sizes.hpp"
#include "engine/tensor/operands.hpp"

namespace heed {

// ---- Axes -------------------------------------------------------------------------------------

inline constexpr AxisNames kQueryNames = {{"batch", "head", "row", "feature"},
                                          {"batch", "query_heads", "query_length", "features"}};
inline constexpr AxisNames kKeyNames = {{"batch", "head", "row", "feature"},
                                        {"batch", "key_heads", "key_length", "features"}};
inline constexpr AxisNames kPageNames = {{"page", "head", "row", "feature"},
                                         {"batch", "key_heads", "key_length", "features"}};
inline constexpr AxisNames kScoreNames = {{"batch", "head", "row", "key"},
                                          {"batch", "query_heads", "query_length", "key_length"}};
inline constexpr AxisNames kColumnNames = {{"batch", "head", "row", "feature"},
                                           {"batch", "query_heads", "key_length", "features"}};

/// Rows of queries, with so many heads and features.
inline Axes rows_of_queries(const Problem& p, std::int64_t heads, std::int64_t features) {
  if (p.packed_queries > 0)
    return {{1, heads, p.packed_queries, features},
            kQueryNames,
            Nesting::kPackedRows,
            Sequences::kQueries};
  return {{p.batch, heads, p.query_length, features},
          kQueryNames,
          Nesting::kAsListed,
          Sequences::kQueries};
}
/// Rows of keys, which may lie in pages.
inline Axes rows_of_keys(const Problem& p, std::int64_t heads, std::int64_t features) {
  if (p.pages > 0)
    return {
        {p.pages, heads, p.page_rows, features}, kPageNames, Nesting::kAsListed, Sequences::kKeys};
  if (p.packed_keys > 0)
    return {{1, heads, p.packed_keys, features}, kKeyNames, Nesting::kPackedRows, Sequences::kKeys};
  return {
      {p.batch, heads, p.key_length, features}, kKeyNames, Nesting::kAsListed, Sequences::kKeys};
}

inline Axes query_axes(const Problem& p) { return rows_of_queries(p, p.query_heads, p.features); }
inline Axes key_axes(const Problem& p) { return rows_of_keys(p, p.key_heads, p.features); }
inline Axes value_axes(const Problem& p) { return rows_of_keys(p, p.key_heads, p.value_features); }
inline Axes out_axes(const Problem& p) {
  return rows_of_queries(p, p.query_heads, p.value_features);
}
/// [heads, rows] also where rows are packed: one number per row leaves no room for heads.
inline Axes lse_axes(const Problem& p) {
  Axes axes = rows_of_queries(p, p.query_heads, 1);
  if (axes.nesting == Nesting::kPackedRows) axes.nesting = Nesting::kPackedHeads;
  return axes;
}
/// One per row of 8 bits, or one that all rows share.
inline Axes scale_axes(const Problem& p, const Layout& scaled) {
  return scaled.type == ElementType::kI8 ? rows_of_keys(p, p.key_heads, 1) : vector_axes(1);
}
inline Axes key_scale_axes(const Problem& p) { return scale_axes(p, p.key); }
inline Axes value_scale_axes(const Problem& p) { return scale_axes(p, p.value); }
inline Axes score_axes(const Problem& p) {
  return {{p.batch, p.query_heads, p.query_length, p.key_length}, kScoreNames};
}
inline Axes weight_axes(const Problem& p) {
  const std::int64_t rows = p.weight_rows > 0 ? p.weight_rows : p.query_length;
  return {{p.batch, p.query_heads, rows, p.key_length}, kScoreNames};
}
inline Axes column_axes(const Problem& p) {
  return {{p.batch, p.query_heads, p.key_length, 1}, kColumnNames};
}
inline Axes sequence_axes(const Problem& p) { return vector_axes(p.batch); }
inline Axes offset_axes(const Problem& p) { return vector_axes(p.batch + 1); }
inline Axes head_axes(const Problem& p) { return vector_axes(p.query_heads); }
inline Axes score_weight_axes(const Problem& p) {
  return vector_axes((Size(p.query_heads) * weights_of_head(p.score, p.features)).value());
}
inline Axes listed_axes(const Problem& p) { return vector_axes(p.weight_rows); }
inline Axes origin_axes(const Problem&) { return vector_axes(4); }
inline Axes table_axes(const Problem& p) {
  const bool empty = p.pages == 0 || p.batch == 0;
  return vector_axes(empty ? 0
                           : (p.batch - 1) * p.table_stride + ceil_div(p.key_length, p.page_rows));
}

// ---- Conditions -------------------------------------------------------------------------------

using AttentionCondition = Condition<Problem>;
inline constexpr AttentionCondition kSoft = {[](const Problem& p) { return !p.hard; },
                                             "with desc.hard, which has no denominator",
                                             AttentionCondition::kResolved};
inline constexpr AttentionCondition kDrops = {[](const Problem& p) { return p.dropout > 0; },
                                              "with desc.dropout 0"};
inline constexpr AttentionCondition kKeysAreScaled = {
    [](const Problem& p) { return is_scaled(p.key.type); },
    "unless desc.key.dtype is HEED_DTYPE_I8 (5) or HEED_DTYPE_F8_E4M3 (6)"};
inline constexpr AttentionCondition kValuesAreScaled = {
    [](const Problem& p) { return is_scaled(p.value.type); },
    "unless desc.value.dtype is HEED_DTYPE_I8 (5) or HEED_DTYPE_F8_E4M3 (6)"};
inline constexpr AttentionCondition kQueriesArePacked = {
    [](const Problem& p) { return p.packed_queries > 0; }, "with desc.packed_queries 0"};
inline constexpr AttentionCondition kKeysArePacked = {
    [](const Problem& p) { return p.packed_keys > 0; }, "with desc.packed_keys 0"};
inline constexpr AttentionCondition kInPages = {[](const Problem& p) { return p.pages > 0; },
                                                "with desc.pages 0"};
inline constexpr AttentionCondition kWeightsAsked = {
    [](const Problem& p) { return p.weights_point != HEED_WEIGHTS_NONE; },
    "with desc.weights_point 0", AttentionCondition::kIgnored, nullptr, "desc.weights_point"};
inline constexpr AttentionCondition kColumnsAsked = {
    [](const Problem& p) { return p.sum_columns; }, "with desc.sum_columns 0",
    AttentionCondition::kIgnored, nullptr, "desc.sum_columns"};

// ---- The table --------------------------------------------------------------------------------

using AttentionApi = Structs<heed_attention_desc, heed_attention_args, Problem>;
#define TENSOR(field) HEED_TENSOR(AttentionApi, field)
#define VECTOR(field) HEED_VECTOR(AttentionApi, field)
#define SCALES(field) HEED_VECTOR_AS(AttentionApi, field, &Problem::field)

inline constexpr Operand<Problem> kAttentionOperands[] = {
    input(TENSOR(query), query_axes),
    input(TENSOR(key), key_axes).with(Types::kStored),
    input(TENSOR(value), value_axes).with(Types::kStored),
    option(SCALES(key_scales), key_scale_axes).only(kKeysAreScaled).told(),
    option(SCALES(value_scales), value_scale_axes).only(kValuesAreScaled).told(),
    output(TENSOR(out), out_axes),
    option(TENSOR(mask), score_axes),
    option(TENSOR(bias), score_axes).told(Odd::kOfBias),
    option(VECTOR(key_lengths), sequence_axes),
    option(VECTOR(first_keys), sequence_axes),
    option(VECTOR(cu_seqlens_q), offset_axes).only(kQueriesArePacked),
    option(VECTOR(cu_seqlens_k), offset_axes).only(kKeysArePacked),
    option(VECTOR(block_table), table_axes).only(kInPages),
    option(VECTOR(alibi_slopes), head_axes),
    option(VECTOR(sinks), head_axes).only(kSoft),
    option(VECTOR(weight_rows), listed_axes),
    option(VECTOR(dropout_origin), origin_axes).only(kDrops),
    input(VECTOR(score_weights), score_weight_axes).only(kWeighsScores<Problem>),
    wanted(TENSOR(lse), lse_axes).with(Types::kDenominator).only(kSoft),
    output(TENSOR(weights), weight_axes).only(kWeightsAsked).not_told(),
    output(TENSOR(column_sums), column_axes).only(kColumnsAsked).not_told(),
};

#undef TENSOR
#undef VECTOR
#undef SCALES

}  // namespace heed
