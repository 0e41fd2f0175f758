// Multi-head blocks as the targets of blocks and of their gradients draw them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <vector>

#include "tests/fuzz/attention_case.hpp"
#include "tests/fuzz/matrices.hpp"

namespace heed_test {

inline bool has_w_out(std::uint32_t combine) {
  return combine == HEED_COMBINE_CONCAT || combine == HEED_COMBINE_TENSOR;
}

inline bool is_float64(const heed_multihead_desc& d) {
  return d.input_query.dtype == HEED_DTYPE_F64;
}

inline std::uint32_t real_of(const heed_multihead_desc& d) {
  return is_float64(d) ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}

/// One of its matrices: 0 `matrices` are one.
struct MatrixShape {
  std::int64_t matrices, in, out;
};

/// The sizes that 0 stands for, and the shapes that follow.
struct BlockShapes {
  BlockShapes(const heed_multihead_desc& d, const heed_attention_desc& a);

  std::int64_t width_query, width_key, width_out, head;
  Axes query, key, out;
  std::vector<MatrixShape> matrices;  ///< of queries, keys and values, and of out if there is one
};

/// A layout of rows, which have no heads.
heed_layout draw_rows(Draw& draw, const Axes& shape, Use use, std::uint32_t dtype);

heed_multihead_desc draw_block(Draw& draw, const heed_attention_desc& a);

/// What the plan's descriptors say to heed; types of the attention are the arithmetic's.
heed_attention_desc inner_of(const heed_multihead_desc& d, heed_attention_desc a);

/// Runs of a plan that heed has accepted: memory for them and arguments.
class BlockCase {
 public:
  BlockCase(const heed_multihead_desc& d, const heed_attention_desc& inner);

  /// Demands that all tensors can be addressed. False: some are not worth allocating here, or there
  /// is too much to compute.
  bool small();

  void make(Draw& draw);
  heed_multihead_args args();

  /// What the oracle is given of a run with such arguments.
  GivenBlock given(const heed_multihead_args& args, const heed_attention_args& inner);

  AttentionCase& attention() { return attention_; }
  const BlockShapes& shapes() const { return shapes_; }
  Tensor& out() { return *out_; }
  bool one_input() const { return !input_key_; }

 private:
  const heed_multihead_desc d_;
  const heed_attention_desc inner_;
  BlockShapes shapes_;
  AttentionCase attention_;
  Extent input_query_in_, input_key_in_, out_in_;
  std::vector<FuzzMatrix> matrices_;
  std::optional<Tensor> input_query_, input_key_, out_;
  RealArray head_weights_;
};

/// Arguments of attention inside a block, which has its query, key, value and out itself.
heed_attention_args inner_args(AttentionCase& attention);

/// Fields of its arguments that damage_pointers must leave alone: a byte further, what is no tensor
/// is no object.
inline constexpr std::initializer_list<std::size_t> kBlockObjects = {
    offsetof(heed_multihead_args, attention), offsetof(heed_multihead_args, p_query),
    offsetof(heed_multihead_args, p_key), offsetof(heed_multihead_args, p_value),
    offsetof(heed_multihead_args, p_out)};

}  // namespace heed_test
