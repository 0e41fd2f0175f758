// The oracle of the gradients of multi-head blocks: the block's own forward oracle, back through
// the combiner, the oracle of the attention's gradients on numbers that are off by known amounts,
// and sums over rows. Each passes its bounds on to the next. See tests/oracle/backward.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "tests/oracle/backward.hpp"
#include "tests/oracle/multihead.hpp"

namespace heed_test {

enum BlockGradientOf : std::size_t {
  kBlockInputQuery,
  kBlockInputKey,
  kBlockWQuery,
  kBlockWKey,
  kBlockWValue,
  kBlockWOut,
  kBlockBQuery,
  kBlockBKey,
  kBlockBValue,
  kBlockBOut,
  kBlockHeadWeights,
  kBlockBias,  ///< of the attention, as are those that follow
  kBlockGradients = kBlockBias + kGradients - kGradBias  ///< how many there are
};

/// What one of the attention's is there.
constexpr GradientOf inside(std::size_t of) {
  return static_cast<GradientOf>(of - kBlockBias + kGradBias);
}

/// Gradients of a block.
struct GivenBlockBackward {
  GivenBlock block;
  GivenGradients<kBlockGradients> gradients;
  bool one_input;  ///< as query and as key
  ScoreModel derivative;
};

/// All that is asked for; the others are empty. Of inputs: [batch, 1, rows, features], packed:
/// batch 1; of matrices: [matrix, 1, in, out].
using ExpectedBlockGradients = std::array<std::vector<Element>, kBlockGradients>;

ExpectedBlockGradients expect_block_gradients(const GivenBlockBackward& given);

}  // namespace heed_test
