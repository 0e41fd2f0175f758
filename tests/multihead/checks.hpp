// What the tests of blocks share: the comparison with the oracle.
#pragma once

#include <cstdint>
#include <string>

#include "tests/dense/kinds.hpp"
#include "tests/problem/block.hpp"

namespace heed_test {

/// Compares all outputs of a run with the oracle.
Ratios check_outputs(const Block& block, const std::string& isa, const Outputs& got,
                     const Expected& want, Unspecified unspecified = Unspecified::kForbidden);

/// Runs a block on every instruction set and compares all outputs with the oracle.
void check_block(Block& block, const IsaContexts& contexts, Report* report = nullptr,
                 Unspecified unspecified = Unspecified::kForbidden);

/// A block of self-attention, or of `keys` other keys, every matrix with a bias.
Block plain_block(Index queries, Index keys, Index heads, Index features, const BlockChoice& choice,
                  Index batch = 1, Index key_heads = 0, Index value_features = 0);

}  // namespace heed_test
