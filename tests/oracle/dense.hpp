// The oracle: attention as heed.h says, in straight loops and in a wider type than heed computes
// in, and for every element of every output how far from it heed's result may be.
//
//   oracle/inputs.hpp       what descriptors and arguments mean
//   oracle/given.hpp        what else the oracle is given
//   oracle/scores.hpp       one step after the other of a score, with its error
//   oracle/head.hpp         the scores of a head, and which keys a row attends
//   oracle/softmax.hpp      the weights of a row, with their errors
//   oracle/scored_row.hpp   a row's weights, and the keys that hard attention may choose
//   oracle/row.hpp          what a row adds to every output
//   oracle/element.hpp      the last rounding, and how results compare
//   oracle/rounding.hpp     what is known about heed's arithmetic
//
// Every bound is derived, in the header that computes it; none is tuned.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/oracle/element.hpp"
#include "tests/oracle/given.hpp"

namespace heed_test {

/// Whether the instruction set multiplies pairs of bfloat16 unless it is asked to be exact.
inline bool multiplies_pairs(const std::string& isa) {
  return isa == "avx512bf16" || isa == "amx" || isa == "neonbf16";
}

/// Whether it multiplies float16, and float32 with HEED_PRECISION_HIGH, as parts of bfloat16.
inline bool multiplies_parts(const std::string& isa) { return isa == "amx"; }

/// Hard attention: a row of out that is right as well as the one in Expected::out.
struct OtherRow {
  std::size_t first;  ///< element of out where the row begins
  std::vector<Element> elements;
};

/// All outputs. Elements that heed leaves alone are kUnwritten.
struct Expected {
  std::vector<Element> out;          ///< [batch, heads, rows, value_features]; packed: batch 1
  std::vector<Element> lse;          ///< [batch, heads, rows]; packed: batch 1
  std::vector<Element> weights;      ///< [batch, heads, listed rows, keys], if the descriptor asks
  std::vector<Element> column_sums;  ///< [batch, heads, keys], if the descriptor asks
  std::vector<OtherRow> others;      ///< further choices of hard attention

  /// The same with the bounds of instruction sets that multiply pairs of bfloat16; nullptr: they
  /// are no wider.
  std::shared_ptr<const Expected> pairs = nullptr;
  /// And of those that multiply parts.
  std::shared_ptr<const Expected> parts = nullptr;

  /// Those of an instruction set.
  const Expected& on(const std::string& isa) const {
    if (parts != nullptr && multiplies_parts(isa)) return *parts;
    return pairs != nullptr && multiplies_pairs(isa) ? *pairs : *this;
  }
};

/// All outputs of a problem and their bounds. `function` says what args.score_function does. Of a
/// precision that is asked for: HIGH, of float32, and EXACT, of bfloat16 alone, on
/// instruction sets that multiply parts; MEDIUM, of float32, on those that multiply pairs.
Expected expect(const heed_attention_desc& desc, const heed_attention_args& args,
                const ScoreModel& function = nullptr,
                heed_precision precision = HEED_PRECISION_DEFAULT);
Expected expect(const Given& given);

/// The same of heed_merge, a mean of parts weighted with e^lse: both outputs in the order [batch,
/// head, row, feature], of parts [batch, heads, rows, features] with their log-sum-exps [batch,
/// heads, rows, 1].
Expected expect_merge(const heed_merge_desc& desc, const std::vector<Source>& outs,
                      const std::vector<Source>& lses);

}  // namespace heed_test
