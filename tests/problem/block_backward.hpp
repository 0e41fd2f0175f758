// Gradients of a block, and the one line that describes them.
#pragma once

#include <array>
#include <string>

#include "tests/oracle/multihead_backward.hpp"
#include "tests/problem/attention_backward.hpp"
#include "tests/problem/block.hpp"

namespace heed_test {

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

std::string line_of(const BlockBackward& p);

}  // namespace heed_test
