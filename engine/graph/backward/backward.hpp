// Gradients of attention over a graph, from a checked descriptor to its outputs.
#pragma once

#include <cstddef>

#include "engine/graph/backward/plan.hpp"

namespace heed {

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_graph_attention_backward_plan& plan,
              const heed_graph_attention_backward_args& args, void* workspace, std::size_t bytes);

/// HEED_VERBOSE=1: one line on stderr for each run.
void print_run(const heed_graph_attention_backward_plan& plan,
               const heed_graph_attention_backward_args& args, double seconds) noexcept;

}  // namespace heed
