// The edges that a checked context makes a graph of.
#pragma once

#include "api/heed.h"

namespace heed {

/// Throws where int64 edges are given as int32 ones, and tells on stderr what looks like it, or as
/// if numbers had been forgotten. `desc` is known to have the arrays that it needs.
void check_given_edges(const heed_graph_desc& desc);

}  // namespace heed
