// Tasks of attention over a graph: the nodes of some parts against all their edges.
#pragma once

#include "engine/graph/step.hpp"

namespace heed {

/// Computes the nodes and splits of the parts [begin, end). `slab` is this thread's own workspace.
void attend_parts(const GraphStep& step, std::int64_t begin, std::int64_t end,
                  std::byte* slab) noexcept;

/// Merges the splits of the hubs [begin, end), which have all been computed.
void merge_hubs(const GraphStep& step, std::int64_t begin, std::int64_t end,
                std::byte* slab) noexcept;

/// Writes the weights of the hubs' edges in the parts [begin, end), after merging.
void recompute_hub_weights(const GraphStep& step, std::int64_t begin, std::int64_t end,
                           std::byte* slab) noexcept;

}  // namespace heed
