// The checks around a checked run over a graph, and of the edges that graphs are made of.
#pragma once

#include "engine/check/workspace.hpp"
#include "engine/graph/plan.hpp"

namespace heed {

/// Throws where int64 edges are given as int32 ones, and tells on stderr what looks like it, or as
/// if numbers had been forgotten. `desc` is known to have the arrays that it needs.
void check_given_edges(const heed_graph_desc& desc);

/// Throws what is certainly wrong, and tells on stderr what looks odd.
void check_before(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args,
                  const CheckedWorkspace& workspace);
/// Tells what looks odd about the result.
void check_after(const heed_graph_attention_plan& plan, const heed_graph_attention_args& args);

}  // namespace heed
