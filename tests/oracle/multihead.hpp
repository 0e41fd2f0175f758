// The oracle of multi-head blocks: projections, the oracle of dense attention on what they give,
// and the combiner. And of their gradients: that oracle, back through the combiner, the oracle of
// the attention's gradients on numbers that are off by known amounts, and sums over rows. Each
// passes its bounds on to the next. See tests/oracle/dense.hpp and backward.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/backward.hpp"

namespace heed_test {

/// A matrix [matrix, 0, in, out] and a bias [0, 0, 0, out] where they lie.
struct GivenMatrix {
  Source matrix;
  Source bias;  ///< .data NULL: none
  Index out;    ///< of each matrix
};

/// A block as heed.h says it. The attention's types are the arithmetic's, its tensors in
/// `arguments` are not looked at.
struct GivenBlock {
  heed_attention_desc attention;
  heed_attention_args arguments;
  ScoreModel function;
  std::uint32_t combine = HEED_COMBINE_CONCAT;
  Source input_query = {};  ///< [batch, 0, row, feature]; packed: batch 0
  Source input_key = {};
  Index width_query = 0;
  Index width_key = 0;
  GivenMatrix w_query = {}, w_key = {}, w_value = {};
  GivenMatrix w_out = {};    ///< with HEED_COMBINE_CONCAT and HEED_COMBINE_TENSOR
  Source head_weights = {};  ///< [0, 0, 0, head], with HEED_COMBINE_WEIGHTED
  std::uint32_t dtype_out = HEED_DTYPE_DEFAULT;
  std::vector<Index> rows = {};    ///< the only rows of out that are looked at, of every sequence
  bool exact_projections = false;  ///< bounds leave out what projecting loses: for blocks so large
                                   ///< that they would say nothing
  bool pairs = false;   ///< heed may multiply pairs of bfloat16, and where input_query is that,
                        ///< leave it between products
  bool rounds = false;  ///< beside that, everything may be rounded to it
  bool parts = false;   ///< float16 is multiplied as parts of it
  bool high = false;    ///< beside that, float32 is
  bool tells_parts = false;  ///< the bounds of parts are wanted beside others
};

/// All outputs of a block and their bounds, those of pairs beside them where they are wider.
Expected expect(const GivenBlock& block);

/// Whether `pairs` makes a difference.
bool may_pair(const GivenBlock& block);

/// The same before the heads are combined: `attention.out` holds them.
struct BlockParts {
  Projections projections;
  Expected attention;
};
BlockParts parts_of(const GivenBlock& block);

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
