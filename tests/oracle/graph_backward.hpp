// The oracle of gradients over graphs: those that heed.h says, analytically, in straight loops and
// in a wider type than heed computes in; and for every element how far from it heed's may be.
//
// Weights come from the log-sum-exp (graph_row.hpp), everything else is made of products and sums
// of bounded numbers (bounded.hpp), in any order. Where two heads may be the largest, nobody knows
// which one the gradient goes to.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "tests/oracle/element.hpp"
#include "tests/oracle/given.hpp"
#include "tests/oracle/graph_inputs.hpp"

namespace heed_test {

struct GraphBackwardGiven {
  GraphGiven forward;
  GivenGradients<kGraphGradients> gradients;
};

/// All that is asked for; the others are empty. Of tensors over nodes and edges [1, heads,
/// rows, features], of matrices [matrices, 1, in, out], of vectors [1, 1, 1, elements].
using ExpectedGraphGradients = std::array<std::vector<Element>, kGraphGradients>;

ExpectedGraphGradients expect_gradients(const GraphBackwardGiven& given);

}  // namespace heed_test
