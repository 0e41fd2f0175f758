// Attention over graphs, run on every instruction set and compared with the oracle.
#pragma once

#include <algorithm>
#include <string>

#include "tests/problem/graph_attention.hpp"
#include "tests/support/attention.hpp"

namespace heed_test {

/// The worst error / bound of every output; 0 where it is not asked for.
struct GraphRatios {
  double out = 0;
  double lse = 0;
  double weights = 0;

  double worst() const { return std::max({out, lse, weights}); }
};

/// Compares all outputs of a run with the oracle.
GraphRatios check_outputs(const GraphProblem& problem, const std::string& isa,
                          const GraphOutputs& got, const GraphExpected& want,
                          Unspecified unspecified = Unspecified::kForbidden);

/// Runs a problem on every instruction set and compares all outputs with the oracle.
void check_problem(GraphProblem& problem, Report* report = nullptr,
                   Unspecified unspecified = Unspecified::kForbidden);

}  // namespace heed_test
