// All results of a run, by name, whatever the operation: attention, blocks, graphs, the gradients
// of each, merges, and products with a prepared matrix.
#pragma once

#include <string>
#include <vector>

#include "tests/problem/block.hpp"
#include "tests/problem/graph_attention.hpp"
#include "tests/problem/merge.hpp"
#include "tests/problem/projection.hpp"

namespace heed_test {

/// One of those that a run was asked for.
struct Result {
  std::size_t of;  ///< which one, of all that the operation has
  std::string name;
  Numbers numbers;
};
using Results = std::vector<Result>;

Results run(Problem& p, const Context& context);
Results run(Block& p, const Context& context);
Results run(GraphProblem& p, const Context& context);
Results run(BackwardProblem& p, const Context& context);
Results run(BlockBackward& p, const Context& context);
Results run(GraphBackwardProblem& p, const Context& context);
Results run(Merge& m, const Context& context);
Results run(Projection& p, const Context& context);

}  // namespace heed_test
