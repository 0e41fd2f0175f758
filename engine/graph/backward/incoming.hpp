// Gradients along incoming edges: what belongs to destinations and to edges.
#pragma once

#include "engine/graph/backward/step.hpp"

namespace heed {

/// The nodes of the parts [begin, end), and the softmax of hubs' splits. Slabs are the thread's.
void differentiate_parts(const GraphBackwardStep& step, std::int64_t begin, std::int64_t end,
                         std::byte* slab) noexcept;

/// Merges the softmax of the hubs [begin, end).
void merge_hub_results(const GraphBackwardStep& step, std::int64_t begin, std::int64_t end,
                       std::byte* slab) noexcept;

/// What the hubs' splits among the parts [begin, end) add to gradients.
void differentiate_splits(const GraphBackwardStep& step, std::int64_t begin, std::int64_t end,
                          std::byte* slab) noexcept;

/// Adds up the splits of the hubs [begin, end).
void sum_hubs(const GraphBackwardStep& step, std::int64_t begin, std::int64_t end,
              std::byte* slab) noexcept;

}  // namespace heed
