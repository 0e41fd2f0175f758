// The oracle of attention over graphs: straight loops in a wider type than heed computes in, and
// for every element of every output how far from it heed's result may be.
//
//   oracle/graph_inputs.hpp      what graphs, descriptors and arguments mean
//   oracle/graph_projection.hpp  queries, keys and values, and what edges add
//   oracle/graph_row.hpp         one node and head
//
// Heads become one as those of blocks (multihead_combine.hpp). The residual is one more sum. The
// data of the next step is what out holds, or would: rounded to its type.
#pragma once

#include <vector>

#include "tests/oracle/dense.hpp"
#include "tests/oracle/graph_inputs.hpp"

namespace heed_test {

/// All outputs and their bounds, heads before rows: out is [out heads, nodes, value_features], lse
/// [heads, nodes], weights [heads, edges given].
Expected expect(const GraphGiven& given);

}  // namespace heed_test
