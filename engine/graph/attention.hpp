// Attention over a graph from checked arguments to its output.
#pragma once

#include <cstddef>

#include "engine/graph/step.hpp"

namespace heed {

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
              void* workspace, std::size_t bytes);

/// Computes the projections of the first step alone. Throws an Error as run_plan does.
heed_graph_projections project_plan(const heed_graph_attention_plan& plan,
                                    const heed_graph_attention_args& args, void* workspace,
                                    std::size_t bytes);

/// Computes a step's results from its queries, keys and values.
void run_step(const GraphStep& step);

/// Copies the matrices over edge data into the workspace, as EdgeMatrix wants them.
void widen_edge_matrices(const heed_graph_attention_plan& plan,
                         const heed_graph_attention_args& args, std::byte* workspace);

}  // namespace heed
