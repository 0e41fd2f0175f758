// Gradients along outgoing edges: what belongs to sources.
#pragma once

#include "engine/graph/backward/step.hpp"

namespace heed {

/// The keys and values of the nodes of the parts [begin, end) of the order by source, and the sums
/// of hubs' splits, after all of incoming.hpp. Slabs are the thread's.
void differentiate_sources(const GraphBackwardStep& step, std::int64_t begin, std::int64_t end,
                           std::byte* slab) noexcept;

/// Adds up the splits of the hubs [begin, end) of that order.
void sum_source_hubs(const GraphBackwardStep& step, std::int64_t begin, std::int64_t end,
                     std::byte* slab) noexcept;

}  // namespace heed
