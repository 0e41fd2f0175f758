#include "tests/support/graph_attention.hpp"

namespace heed_test {

GraphRatios check_outputs(const GraphProblem& problem, const std::string& isa,
                          const GraphOutputs& got, const GraphExpected& want,
                          Unspecified unspecified) {
  const std::string line = isa + ": " + line_of(problem) + ", ";
  const auto check = [&](const char* what, const std::optional<Tensor>& tensor,
                         const Numbers& numbers, const std::vector<Element>& elements) {
    if (!tensor) return 0.0;
    return check_elements(line + what, tensor->shape(), numbers, elements, unspecified);
  };
  return {check("out", problem.out, got.out, want.out),
          check("lse", problem.lse, got.lse, want.lse),
          check("weights", problem.weights, got.weights, want.weights)};
}

void check_problem(GraphProblem& problem, Report* report, Unspecified unspecified) {
  const GraphExpected want = problem.expected();
  check_isas(line_of(problem), report, [&](std::size_t, const char* isa) {
    return check_outputs(problem, isa, problem.run(isa), want, unspecified).worst();
  });
}

}  // namespace heed_test
