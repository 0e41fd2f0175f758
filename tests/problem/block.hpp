// A multi-head block with everything that it may have, run and compared with the oracle.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/multihead.hpp"
#include "tests/problem/attention.hpp"
#include "tests/problem/weight_matrix.hpp"

namespace heed_test {

/// What a block is made of, besides its attention.
struct BlockChoice {
  std::uint32_t combine = HEED_COMBINE_CONCAT;
  Index width_query = 8;
  Index width_key = 8;
  Index width_out = 8;  ///< with a W_out
  bool self = false;    ///< input_key NULL
  std::uint32_t dtype_query = HEED_DTYPE_DEFAULT;
  std::uint32_t dtype_key = HEED_DTYPE_DEFAULT;
  std::uint32_t dtype_out = HEED_DTYPE_DEFAULT;
  Arrangement query = Arrangement::kDefault;
  Arrangement key = Arrangement::kDefault;
  Arrangement out = Arrangement::kDefault;
  std::size_t misalign = 0;
  std::uint32_t bias_dtype = HEED_DTYPE_DEFAULT;
  MatrixChoice w_query = {};
  MatrixChoice w_key = {};
  MatrixChoice w_value = {};
  MatrixChoice w_out = {};
};

constexpr std::uint32_t kCombiners[] = {HEED_COMBINE_CONCAT, HEED_COMBINE_WEIGHTED,
                                        HEED_COMBINE_MEAN,   HEED_COMBINE_MAX,
                                        HEED_COMBINE_TENSOR, HEED_COMBINE_HEADS};

inline bool has_w_out(std::uint32_t combine) {
  return combine == HEED_COMBINE_CONCAT || combine == HEED_COMBINE_TENSOR;
}

/// A block whose every tensor has this type; 0: float32.
BlockChoice choice_of(std::uint32_t dtype);

inline bool is_float64(const heed_multihead_desc& d) {
  return d.input_query.dtype == HEED_DTYPE_F64;
}
inline std::uint32_t real_dtype(const heed_multihead_desc& d) {
  return is_float64(d) ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}

/// A matrix of a block, `matrices` one after the other, 0: one.
struct LaidOutMatrix {
  Index matrices, in, out;
  const heed_matrix_layout* layout;
  LaidOut laid;
};

/// The sizes that 0 stands for, and the layouts of a descriptor, which points at its attention's.
struct LaidOutBlock {
  explicit LaidOutBlock(heed_multihead_desc& desc);

  Index width_query, width_key, width_out;
  std::uint32_t real;  ///< the arithmetic's type
  LaidOut input_query, input_key, out;
  std::vector<LaidOutMatrix> matrices;  ///< of queries, keys and values, and out if there is one

  std::vector<LaidOut> all() const;

 private:
  LaidOutBlock(heed_multihead_desc& d, const heed_attention_desc& a, const AttentionShapes& s);
  LaidOut rows(heed_layout& layout, const Axes& like, Index width, Use use, bool packed) const;
  void add(heed_matrix_layout& layout, Index count, Index in, Index out_features);
};

/// Of the attention's own tensors only the sizes count, and whether all are float64.
class Block {
 public:
  Block(const Problem& attention_, const BlockChoice& choice_);
  /// Of a valid descriptor, whatever attention it points at, and of matrices without biases.
  Block(const Problem& attention_, const heed_multihead_desc& desc, bool self,
        std::size_t misalign = 0);

  /// Projections come to lie around `amplitude`.
  void fill(std::uint64_t seed, double amplitude = 1);

  /// Valid until the block is changed, as is args().
  heed_multihead_desc desc();

  /// Without the prepared matrices.
  heed_multihead_args args();

  /// Those that are prepared; NULL: it is given as it is, or there is none.
  using Prepared = std::array<Weights, 4>;
  Prepared prepare(const Context& context) const;
  heed_multihead_args args(const Prepared& prepared);

  /// What the oracle is given; of a run with other arguments.
  GivenBlock given();
  GivenBlock given(const heed_multihead_args& args, const heed_attention_args& inner) const;
  /// With HEED_PRECISION_MEDIUM, on instruction sets that multiply pairs; with HEED_PRECISION_HIGH,
  /// on those that multiply parts.
  Expected expected(heed_precision precision = HEED_PRECISION_DEFAULT);

  /// Everything that a run writes; throws if it writes anything else.
  Outputs run_all(const Context& context);
  Outputs run_all(const char* isa);

  Index key_heads() const { return key_heads_of(attention.desc); }
  Index out_width() const { return out.shape()[3]; }
  /// Of queries, keys and values, and out if there is one.
  std::vector<WeightMatrix*> matrices();
  LaidOutBlock laid_out();
  void fill_head_weights(Random& random);

  Problem attention;
  BlockChoice choice;  ///< all but arrangements, where a descriptor says how tensors lie

 private:
  heed_multihead_desc desc_;

 public:
  std::uint32_t real;  ///< the arithmetic's type
  Tensor input_query;  ///< [batch, 1, row, feature]; packed: batch 1
  std::optional<Tensor> input_key;
  WeightMatrix w_query, w_key, w_value;
  std::optional<WeightMatrix> w_out;
  RealArray head_weights;
  Tensor out;

 private:
  WeightMatrix matrix(std::size_t i);
  std::vector<Tensor*> written_tensors();

  heed_attention_desc inner_ = HEED_ATTENTION_DESC_INIT;
  heed_attention_args inner_args_ = HEED_ATTENTION_ARGS_INIT;
};

const char* name_of_combine(std::uint32_t combine);

/// One line that identifies a block but for its numbers.
std::string line_of(const Block& b);

}  // namespace heed_test
