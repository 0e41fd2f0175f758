// HEED_VERBOSE=1: one line on stderr for each run over a graph.
#pragma once

#include "engine/graph/plan.hpp"

namespace heed {

/// The speed is the rate of gathering keys and values, as if a run did nothing else.
void print_run(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
               double seconds) noexcept;

/// The line of a run of any kind over a graph; `what` begins it, and steps gather so many bytes.
void print_graph(const char* what, const heed_graph_attention_plan& plan, const GraphProblem& p,
                 const heed_graph_attention_args& args, std::size_t tasks, double gathered_bytes,
                 double seconds) noexcept;

}  // namespace heed
