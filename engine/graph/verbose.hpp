// HEED_VERBOSE=1: one line on stderr for each run over a graph.
#pragma once

#include "engine/graph/plan.hpp"

namespace heed {

/// The speed is the rate of gathering keys and values, as if a run did nothing else.
void print_run(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
               double seconds) noexcept;

}  // namespace heed
