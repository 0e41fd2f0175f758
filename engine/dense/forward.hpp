// Tasks of dense forward attention: a block of query rows against all the keys they attend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/dense/plan.hpp"

namespace heed {

/// Computes the rows of the tasks [begin, end) of plan.tasks. `slab` is this thread's own
/// workspace, plan.slab.bytes long; `results`, if somebody will ask for weights, receives how the
/// softmax of each row ended, RowResult [batch][query_heads][query_length].
void attend_blocks(const heed_attention_plan& plan, const heed_attention_args& args,
                   std::int64_t begin, std::int64_t end, std::byte* slab,
                   std::byte* results) noexcept;

}  // namespace heed
