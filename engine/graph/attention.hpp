// Attention over a graph from checked arguments to its output.
#pragma once

#include <cstddef>

#include "engine/graph/plan.hpp"

namespace heed {

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
              void* workspace, std::size_t bytes);

}  // namespace heed
