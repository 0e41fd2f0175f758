// Random blocks, and gradients of them: an attention of any form, and every choice of the block
// drawn on its own. First descriptors, then all that else belongs to a run.
#pragma once

#include <cstdint>

#include "tests/problem/block_backward.hpp"
#include "tests/problem/random_forms.hpp"

namespace heed_test {

/// A valid descriptor of a block around an attention; kSelf: one whose input_key may be NULL.
heed_multihead_desc draw_block_desc(Draw& draw, const heed_attention_desc& attention,
                                    Lengths lengths);
/// Valid numbers of a run, and which matrices have biases and are prepared.
void draw_arrays(Draw& draw, Block& block);

heed_multihead_backward_desc draw_backward(Draw& draw, const heed_multihead_desc& block);

/// A block of a seed; those that are differentiable have no outputs except out and lse.
Block draw_block(std::uint64_t seed);
Block draw_differentiable_block(std::uint64_t seed);

/// A random block with gradients that are asked for and lie anyhow.
BlockBackward draw_block_backward(std::uint64_t seed);

}  // namespace heed_test
