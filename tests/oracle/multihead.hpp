// The oracle of multi-head blocks: projections, the oracle of dense attention on what they give,
// and the combiner; each passes its bounds on to the next. See tests/oracle/dense.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/dense.hpp"

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

}  // namespace heed_test
