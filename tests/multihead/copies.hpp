// Random blocks, and the same blocks with their tensors in other places or types.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/dense/kinds.hpp"
#include "tests/problem/random_blocks.hpp"

namespace heed_test {

/// A block of self-attention, or of `keys` other keys, every matrix with a bias.
Block plain_block(Index queries, Index keys, Index heads, Index features, const BlockChoice& choice,
                  Index batch = 1, Index key_heads = 0, Index value_features = 0);

/// The numbers of one tensor in another of its shape; where `item` says so, of one item alone.
void copy_numbers(const Tensor& from, Tensor& to, Index item = 0);
void copy_numbers(const WeightMatrix& from, WeightMatrix& to);
void copy_matrices(const Block& from, Block& to);

/// The same block with its tensors in other places or types.
Block remade(const Block& block, const BlockChoice& choice);

std::array<MatrixChoice*, 4> matrices_of(BlockChoice& choice);

}  // namespace heed_test
