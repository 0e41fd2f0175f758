// The second walk: what the weights of rows are whose softmax is known, for those who ask.
//
// Weights and column sums are computed from the queries and keys once more, a step of keys at a
// time, with the reference and sum that each row ended with. So asking for them changes nothing
// in the first walk, and takes no memory but what is asked for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/dense/plan.hpp"

namespace heed {

/// Computes the tasks [begin, end) of plan.views: task t is chunk t % chunks of head t / chunks.
/// `slab` and `results` are as attend_blocks left them.
void view_chunks(const heed_attention_plan& plan, const heed_attention_args& args,
                 std::int64_t begin, std::int64_t end, std::byte* slab,
                 std::byte* results) noexcept;

}  // namespace heed
