// One multi-head block: the descriptor after its defaults are filled in and its fields are checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/heed.h"
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
  std::int64_t heads_width;                              ///< of what W_out multiplies
  Layout input_query, input_key, out;
  Matrix w_query, w_key, w_value;
  Matrix w_out;         ///< if has_w_out()
  Layout bias;          ///< of every bias
  bool one_input_fits;  ///< input_query may serve as input_key
  bool keep;            ///< a run leaves what gradients need

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

}  // namespace heed
