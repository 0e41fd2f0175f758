// Graphs as the targets of graphs draw them.
#pragma once

#include "tests/problem/draw.hpp"
#include "tests/support/graphs.hpp"

namespace heed_test {

EdgeList draw_edges(Draw& draw);

/// A graph of these edges, in arrays that are exactly as long as they say; NULL if heed refuses it,
/// which only a damaged one may be. `edges` becomes what it was made of. With `reverse` sorted by
/// source too.
Graph draw_graph(Draw& draw, EdgeList& edges, bool damaged, bool reverse = false);

}  // namespace heed_test
