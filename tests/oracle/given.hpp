// What the oracle is given besides descriptors and arguments: what score functions do, and queries,
// keys and values that heed computes itself.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/inputs.hpp"
#include "tests/oracle/rounding.hpp"

namespace heed_test {

/// Which score.
struct Place {
  Index batch, head, row, key;
};

/// What a score function does, for the oracle: the score it makes of one that may be off by its
/// bound, and how far off the result may then be. `unit` is kUnit of heed's arithmetic.
using ScoreModel = std::function<Bounded<long double>(const Bounded<long double>&, const Place&,
                                                      long double unit)>;

/// Queries, keys and values that heed computes itself.
struct Projections {
  Computed query, key, value;
};

/// What the oracle is given: what heed is, and what the score function does.
struct Given {
  const heed_attention_desc& desc;
  const heed_attention_args& args;
  const ScoreModel& function;
  const Projections* projections = nullptr;  ///< instead of tensors in args
  std::vector<Index> rows =
      {};               ///< the only ones that are looked at, column sums apart; empty: all
  bool pairs = false;   ///< heed may multiply pairs: bfloat16, where it rounds weights, or integers
  Parts parts = {};     ///< or numbers as so many parts of bfloat16, see rounding.hpp
  bool rounds = false;  ///< beside pairs, queries, keys and values may be rounded to bfloat16
};

/// Where a gradient lies, and what is there if gradients accumulate; .data NULL: not asked for.
struct GivenGradient {
  Source lies{};
  std::array<Index, 4> shape{};
};

/// What the oracle of `count` gradients starts from, and what it is asked for.
template <std::size_t count>
struct GivenGradients {
  bool accumulate = false;
  Source out{}, lse{};  ///< .data NULL: there is none
  std::array<GivenGradient, count> of{};

  bool asked(std::size_t gradient) const { return of[gradient].lies.data != nullptr; }
};

}  // namespace heed_test
