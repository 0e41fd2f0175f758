// A multi-head block with everything that it may have, its gradients, and the one line that
// describes each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/multihead.hpp"
#include "tests/problem/attention.hpp"
#include "tests/problem/projection.hpp"

namespace heed_test {

constexpr std::uint32_t kCombiners[] = {HEED_COMBINE_CONCAT, HEED_COMBINE_WEIGHTED,
                                        HEED_COMBINE_MEAN,   HEED_COMBINE_MAX,
                                        HEED_COMBINE_TENSOR, HEED_COMBINE_HEADS};

inline bool has_w_out(std::uint32_t combine) {
  return combine == HEED_COMBINE_CONCAT || combine == HEED_COMBINE_TENSOR;
}

/// Of a block whose every tensor has this type, 0: float32, and whose rows are so wide.
heed_multihead_desc block_desc(std::uint32_t dtype = HEED_DTYPE_DEFAULT, Index width = 8);

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
  /// Of a valid descriptor, whatever attention it points at, and of matrices without biases.
  Block(const Problem& attention_, const heed_multihead_desc& desc, bool self,
        std::size_t misalign = 0);

  /// Projections come to lie around `amplitude`.
  void fill(std::uint64_t seed, double amplitude = 1);

  /// Valid until the block is changed, as is args().
  heed_multihead_desc desc();
  std::uint32_t combine() const { return own_desc.combine; }

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

  /// Calls function(tensor, layout) for the inputs, the output and the matrices.
  template <class Function>
  void each_laid(Function&& function) {
    const LaidOutBlock laid = laid_out();
    function(input_query, laid.input_query);
    if (input_key) function(*input_key, laid.input_key);
    function(out, laid.out);
    const std::vector<WeightMatrix*> all = matrices();
    for (std::size_t i = 0; i < all.size(); ++i) {
      function(all[i]->tensor, laid.matrices[i].laid);
      all[i]->lies(*laid.matrices[i].layout);
    }
  }

  /// Everything that a run writes; throws if it writes anything else.
  Outputs run_all(const Context& context);
  /// Runs it with these arguments. What it keeps for gradients, if the descriptor says so: they
  /// point at it then.
  Workspace run_and_keep(const Context& context, heed_multihead_args& args);
  Outputs run_all(const char* isa) { return run_all(make_context(isa)); }

  Index key_heads() const { return key_heads_of(attention.desc); }
  Index out_width() const { return out.shape()[3]; }
  /// Of queries, keys and values, and out if there is one.
  std::vector<WeightMatrix*> matrices();
  LaidOutBlock laid_out();
  /// The i-th of matrices() as the descriptor says, not drawn.
  WeightMatrix matrix(std::size_t i);
  void fill_head_weights(Random& random);

  Problem attention;
  heed_multihead_desc own_desc;  ///< all but the attention
  std::uint32_t real;            ///< the arithmetic's type
  Tensor input_query;            ///< [batch, 1, row, feature]; packed: batch 1
  std::optional<Tensor> input_key;
  WeightMatrix w_query, w_key, w_value;
  std::optional<WeightMatrix> w_out;
  RealArray head_weights;
  Tensor out;

 private:
  heed_attention_desc inner_ = HEED_ATTENTION_DESC_INIT;
  heed_attention_args inner_args_ = HEED_ATTENTION_ARGS_INIT;
};

/// Every matrix with a bias; keys 0: of self-attention.
Block plain_block(Index queries, Index keys, Index heads, Index features,
                  const heed_multihead_desc& desc, Index batch = 1, Index key_heads = 0,
                  Index value_features = 0);

const char* name_of_combine(std::uint32_t combine);

/// One line that identifies a block but for its numbers.
std::string line_of(const Block& b);

/// The gradients that a run wrote; empty: not asked for.
using BlockGradients = std::array<Numbers, kBlockGradients>;

const char* name_of(BlockGradientOf gradient);

/// The layouts of a descriptor, which points at its block's, and that at its attention's.
LaidOutGradients<kBlockGradients> laid_out(heed_multihead_backward_desc& desc);

/// Of a differentiable block. Gradients of its biases share a type, that of the last.
class BlockBackward
    : public GradientProblem<heed_multihead_backward_desc, heed_multihead_backward_args,
                             BlockGradientOf, kBlockGradients> {
 public:
  explicit BlockBackward(Block block_, std::uint64_t seed = 1, const Form& of_out = {});
  /// Of a valid descriptor, and of tensors that are yet to be drawn.
  BlockBackward(Block block_, const heed_multihead_backward_desc& desc);

  bool can_want(BlockGradientOf gradient) const override;

  /// On an instruction set; nullptr: on those that multiply no pairs.
  ExpectedBlockGradients expected(const char* isa = nullptr);

  /// What heed gets, beside a block's descriptor and arguments, which are to live as long.
  const heed_multihead_backward_desc& desc(const heed_multihead_desc& of_block) {
    desc_.block = &of_block;
    return desc_;
  }
  heed_multihead_backward_args args(const heed_multihead_args& of_block);

  /// Everything that a run writes, after one of the block if that keeps; throws if it writes
  /// anything else.
  BlockGradients run(const Context& context);

  Block block;

 protected:
  LaidOutGradients<kBlockGradients> laid_out() override;
  bool owns(BlockGradientOf gradient, Index row) const override;

 private:
  heed_multihead_desc of_block_ = HEED_MULTIHEAD_DESC_INIT;
};

inline std::string line_of(const BlockBackward& p) {
  return line_of(p.block) + line_of_gradients(p);
}

}  // namespace heed_test
