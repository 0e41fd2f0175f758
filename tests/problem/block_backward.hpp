// Gradients of a block: what is given besides it, where they are written, and the comparison with
// the oracle.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "tests/oracle/multihead_backward.hpp"
#include "tests/problem/attention_backward.hpp"
#include "tests/problem/block.hpp"

namespace heed_test {

/// The gradients that a run wrote; empty: not asked for.
using BlockGradients = std::array<Numbers, kBlockGradients>;

const char* name_of(BlockGradientOf gradient);
std::array<BlockGradientOf, kBlockGradients> all_block_gradients();

/// Whether what a run needs is kept by one of the block, or computed again.
enum class Keeps { kNothing, kAll };

/// Of a differentiable block. The gradient of out is given, normally distributed; that of lse is
/// not, and no gradient is asked for.
class BlockBackward {
 public:
  explicit BlockBackward(Block block_, std::uint64_t seed = 1, const Form& of_out = {});

  void give_grad_lse(std::uint64_t seed, const Form& form = {});

  /// Whether the block has what this is the gradient of.
  bool can_want(BlockGradientOf gradient) const;
  /// Gradients of biases share a type, that of the last.
  void want(BlockGradientOf gradient, const Form& form = {});
  void want_all();
  void want_nothing();

  /// Adds to numbers that are there.
  void accumulate(std::uint64_t seed);

  /// On an instruction set; nullptr: on those that multiply no pairs.
  ExpectedBlockGradients expected(const char* isa = nullptr);

  /// What heed gets, beside a block's descriptor and arguments, which are to live as long.
  const heed_multihead_backward_desc& desc(const heed_multihead_desc& of_block) {
    desc_.block = &of_block;
    return desc_;
  }
  heed_multihead_backward_args args(const heed_multihead_args& of_block);

  /// Everything that a run writes; throws if it writes anything else.
  BlockGradients run(const Context& context, Keeps keeps = Keeps::kNothing);

  Block block;
  Tensor grad_out;
  std::optional<Tensor> grad_lse;
  std::array<std::optional<Tensor>, kBlockGradients> gradients;

 private:
  std::uint32_t real() const { return block.real; }
  bool owns_row(BlockGradientOf gradient, Index row) const;
  void want_input(BlockGradientOf gradient, const Tensor& like, const Form& form,
                  heed_layout& layout);
  void want_matrix(BlockGradientOf gradient, const WeightMatrix& like, const Form& form,
                   heed_matrix_layout& layout);
  void want_numbers(BlockGradientOf gradient, Index count, std::uint32_t dtype);

  /// Puts into gradients what is there before a run.
  void begin();

  heed_multihead_backward_desc desc_ = HEED_MULTIHEAD_BACKWARD_DESC_INIT;
  std::array<std::optional<Tensor>, kBlockGradients> before_;
};

inline std::array<BlockGradientOf, kBlockGradients> gradients_of(const BlockBackward&) {
  return all_block_gradients();
}

std::string line_of(const BlockBackward& p);

using BlockComparison = Comparisons<kBlockGradients>;

/// A random block with gradients that are asked for and lie anyhow.
BlockBackward draw_block_backward(std::uint64_t seed);

}  // namespace heed_test
