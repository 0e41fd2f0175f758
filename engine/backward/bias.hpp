// The gradient of a bias, summed over the axes that it repeats.
#pragma once

#include "engine/backward/panel.hpp"
#include "engine/backward/scores.hpp"

namespace heed {

/// Tiles of the bias: some keys, or the one that repeats, for a panel of rows, or the one, and so
/// on.
std::int64_t bias_tasks(const heed_attention_backward_plan& plan);

/// How many parts of the batch, heads and panels that a tile repeats over are summed apart, and
/// then in order. It depends on the problem and the panel alone.
std::int64_t bias_parts(const heed_attention_backward_plan& plan);

/// Of the sums of a tile.
Size bias_numbers(const heed_attention_backward_plan& plan);

/// Computes the gradients of scores of a tile again, sums and writes them.
template <class Real>
void add_bias(const heed_attention_backward_plan& plan, const BackwardArgs& args, std::int64_t task,
              std::byte* slab);

/// The same where parts are apart: sums one part of a tile to plan.bias_sums of the workspace ...
template <class Real>
void add_bias_part(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                   std::int64_t task, std::byte* slab, std::byte* workspace);
/// ... and writes the sums of all parts of a tile.
template <class Real>
void write_bias(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                std::int64_t task, std::byte* slab, std::byte* workspace);

}  // namespace heed
