// Tasks of dense forward attention: a block of query rows against all the keys they attend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/dense/plan.hpp"

namespace heed {

/// The tensors of a run, by type.
struct Tensors {
  const float* query;
  const float* key;
  const float* value;
  float* out;
};

/// Computes the rows of the tasks [begin, end) of plan.tasks. `slab` is this thread's own
/// workspace, plan.slab.bytes long.
void attend_blocks(const heed_attention_plan& plan, const Tensors& tensors, std::int64_t begin,
                   std::int64_t end, std::byte* slab) noexcept;

}  // namespace heed
