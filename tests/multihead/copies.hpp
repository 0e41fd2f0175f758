// Random blocks, and the same blocks with their tensors in other places or types.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/multihead/random_blocks.hpp"

namespace heed_test {

/// Calls check(block, seed) for random blocks; how often it said that there was something to see.
template <class Check>
void check_drawn(std::size_t full, std::size_t at_least, Check&& check) {
  std::size_t seen = 0;
  for (std::uint64_t seed = 1; seed <= count(full); ++seed) {
    Block block = RandomBlocks(seed).draw();
    INFO("seed " << seed << ": " << line_of(block));
    seen += check(block, seed) ? 1 : 0;
  }
  CHECK((small() || seen >= at_least));
}

std::vector<Outputs> run_everywhere(Block& block, const IsaContexts& contexts);
bool check_same(Block& a, Block& b, const IsaContexts& contexts);

// ---- Copies ----

/// The numbers of one tensor in another of its shape; where `item` says so, of one item alone.
void copy_numbers(const Tensor& from, Tensor& to, Index item = 0);
void copy_numbers(const WeightMatrix& from, WeightMatrix& to);
void copy_matrices(const Block& from, Block& to);

/// The same block with its tensors in other places or types.
Block remade(const Block& block, const BlockChoice& choice);

std::array<MatrixChoice*, 4> matrices_of(BlockChoice& choice);

}  // namespace heed_test
