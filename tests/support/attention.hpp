// Whole calls through the C API, run on every instruction set and compared with the oracle.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/heed.h"
#include "tests/catch.hpp"
#include "tests/oracle/dense.hpp"
#include "tests/problem/attention.hpp"
#include "tests/problem/graph_attention.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/size.hpp"

namespace heed_test {

/// The worst error / bound of a whole test, per instruction set.
class Report {
 public:
  explicit Report(const char* what);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;
  void add(std::size_t isa, double ratio);

 private:
  std::string what_;
  std::vector<double> worst_;
};

/// Compares an output of this shape with the oracle, element by element; the worst error / bound.
double check_elements(const std::string& what, const Axes& shape, const Numbers& got,
                      const std::vector<Element>& want,
                      Unspecified unspecified = Unspecified::kForbidden);

/// Compares a run with the oracle in everything but out.
Ratios check_further(const std::string& line, const Problem& problem, const Outputs& got,
                     const Expected& want, Unspecified unspecified);

/// Compares all outputs of a run with the oracle.
Ratios check_outputs(const Problem& problem, const std::string& isa, const Outputs& got,
                     const Expected& want, Unspecified unspecified = Unspecified::kForbidden);

Ratios check_outputs(const GraphProblem& problem, const std::string& isa, const GraphOutputs& got,
                     const GraphExpected& want, Unspecified unspecified = Unspecified::kForbidden);

/// Reports check(i, name), the worst error / bound, of every instruction set. `line` is what
/// failures name the problem by.
void check_isas(const std::string& line, Report* report,
                const std::function<double(std::size_t, const char*)>& check);

/// Runs a problem on every instruction set and compares all outputs with the oracle.
void check_problem(Problem& problem, Report* report = nullptr,
                   Unspecified unspecified = Unspecified::kForbidden);
void check_problem(GraphProblem& problem, Report* report = nullptr,
                   Unspecified unspecified = Unspecified::kForbidden);

}  // namespace heed_test
