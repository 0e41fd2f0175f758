#include "tests/support/attention.hpp"

#include <algorithm>

namespace heed_test {

Report::Report(const char* what) : what_(what), worst_(isa_names().size(), 0.0) {}

Report::~Report() {
  for (std::size_t i = 0; i < worst_.size(); ++i) report(what_.c_str(), isa_names()[i], worst_[i]);
}

void Report::add(std::size_t isa, double ratio) { worst_[isa] = std::max(worst_[isa], ratio); }

double check_elements(const std::string& what, const Axes& shape, const Numbers& got,
                      const std::vector<Element>& want, Unspecified unspecified) {
  const Comparison comparison = compare_elements(what, shape, got, want, unspecified);
  if (!comparison.wrong.empty()) FAIL_CHECK(comparison.wrong);
  return comparison.ratio;
}

namespace {

/// Compares an output that may not be asked for.
double check_asked(const std::string& what, const std::optional<Tensor>& tensor, const Numbers& got,
                   const std::vector<Element>& want, Unspecified unspecified) {
  return tensor ? check_elements(what, tensor->shape(), got, want, unspecified) : 0.0;
}

}  // namespace

Ratios check_further(const std::string& line, const Problem& problem, const Outputs& got,
                     const Expected& want, Unspecified unspecified) {
  return {0, check_asked(line + "lse", problem.lse, got.lse, want.lse, unspecified),
          check_asked(line + "weights", problem.weights, got.weights, want.weights, unspecified),
          check_asked(line + "column sums", problem.column_sums, got.column_sums, want.column_sums,
                      unspecified)};
}

Ratios check_outputs(const Problem& problem, const std::string& isa, const Outputs& got,
                     const Expected& expected, Unspecified unspecified) {
  const Expected& want = expected.on(isa);
  const std::string line = isa + ": " + line_of(problem) + ", ";
  Ratios ratios = check_further(line, problem, got, want, unspecified);
  ratios.out = check_elements(line + "out", problem.out.shape(), got.out, chosen(got.out, want),
                              unspecified);
  return ratios;
}

Ratios check_outputs(const GraphProblem& problem, const std::string& isa, const GraphOutputs& got,
                     const GraphExpected& want, Unspecified unspecified) {
  const std::string line = isa + ": " + line_of(problem) + ", ";
  return {check_asked(line + "out", problem.out, got.out, want.out, unspecified),
          check_asked(line + "lse", problem.lse, got.lse, want.lse, unspecified),
          check_asked(line + "weights", problem.weights, got.weights, want.weights, unspecified)};
}

void check_isas(const std::string& line, Report* report,
                const std::function<double(std::size_t, const char*)>& check) {
  const auto isas = isa_names();
  for (std::size_t i = 0; i < isas.size(); ++i) {
    INFO(isas[i] << ": " << line);
    const double worst = check(i, isas[i]);
    if (report != nullptr) report->add(i, worst);
  }
  SUCCEED();
}

void check_problem(Problem& problem, Report* report, Unspecified unspecified) {
  const Expected want = problem.expected_all();
  check_isas(line_of(problem), report, [&](std::size_t, const char* isa) {
    return check_outputs(problem, isa, problem.run_all(isa), want, unspecified).worst();
  });
}

void check_problem(GraphProblem& problem, Report* report, Unspecified unspecified) {
  const GraphExpected want = problem.expected();
  check_isas(line_of(problem), report, [&](std::size_t, const char* isa) {
    return check_outputs(problem, isa, problem.run(isa), want, unspecified).worst();
  });
}

}  // namespace heed_test
