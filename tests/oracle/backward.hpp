// The oracle of gradients: those of dense attention as heed.h says, analytically, in straight loops
// and in a wider type than heed computes in; and for every element how far from it heed's may be.
//
//   oracle/bounded.hpp        products and sums of numbers that are off by a known amount
//   oracle/backward_row.hpp   what each pair of a row passes on
//
// It takes out and lse as they are given, whatever they are. Sums are bounded in any order, and
// constants by one rounding more than heed has, as in oracle/dense.hpp. Gradients that are added to
// what is there see one addition more, and all are rounded to their types in the end.
//
// A packed row that belongs to no sequence is left alone.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/dense.hpp"
#include "tests/oracle/element.hpp"
#include "tests/oracle/given.hpp"

namespace heed_test {

/// What a block computes itself: then tensors in the arguments are not looked at, and gradients of
/// query, key and value never accumulate.
struct BlockInside {
  const Projections& projections;
  const std::vector<Element>& out;  ///< [batch, heads, rows, value_features]; packed: batch 1
  const std::vector<Element>& lse;
  const Computed& grad_out;  ///< [batch and row, head and value feature]
};

enum GradientOf : std::size_t {
  kGradQuery,
  kGradKey,
  kGradValue,
  kGradBias,
  kGradSinks,
  kGradSlopes,
  kGradScale,
  kGradTemperature,
  kGradScoreWeights,
  kGradients  ///< how many there are
};

/// What the oracle of gradients is given: what heed is, what the score function does, and what
/// derivative it has for the score that it finds.
struct BackwardGiven {
  const heed_attention_desc& desc;
  const heed_attention_args& args;
  const ScoreModel& function;
  const ScoreModel& derivative;
  GivenGradients<kGradients> gradients;
  const BlockInside* inside = nullptr;
  bool pairs = false;  ///< heed may multiply pairs of bfloat16, see backward_row.hpp, 5
};

/// All that is asked for; the others are empty. Of query, key and value: [batch, heads,
/// rows, features], packed: batch 1; of bias: of its own sizes; of sinks and slopes: [heads];
/// of score weights: [heads * features].
struct ExpectedGradients : std::array<std::vector<Element>, kGradients> {
  /// As Expected::pairs.
  std::shared_ptr<const ExpectedGradients> pairs = nullptr;

  const ExpectedGradients& on(const std::string& isa) const {
    return pairs != nullptr && multiplies_pairs(isa) ? *pairs : *this;
  }
};

ExpectedGradients expect_gradients(const BackwardGiven& given);

}  // namespace heed_test
