// Checks of the edges that a graph is made from.
#pragma once

#include "api/heed.h"

namespace heed {

/// Throws if int64 edges are given as int32 ones, and tells on stderr if they may be, or if numbers
/// seem to be forgotten. `desc` has the arrays that it needs.
void check_given_edges(const heed_graph_desc& desc);

}  // namespace heed
