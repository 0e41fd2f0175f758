// The gradient of a bias, summed over the axes that it repeats.
#pragma once

#include "engine/backward/panel.hpp"
#include "engine/backward/scores.hpp"

namespace heed {

/// Tasks of add_bias(): a tile of keys, or all of them, for a panel of rows, or all, and so on.
std::int64_t bias_tasks(const heed_attention_backward_plan& plan);

/// Computes the gradients of scores again, and sums them in order.
template <class Real>
void add_bias(const heed_attention_backward_plan& plan, const BackwardArgs& args, std::int64_t task,
              std::byte* slab);

}  // namespace heed
