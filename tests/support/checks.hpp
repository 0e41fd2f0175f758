// Problems of every operation, run and compared with the oracle by the same calls: attention,
// blocks, graphs, the gradients of each, and merges.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/problem/block_backward.hpp"
#include "tests/problem/graph_backward.hpp"
#include "tests/problem/merge.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/size.hpp"

namespace heed_test {

/// Gradients of a block, and whether the block keeps what they need.
struct BlockBackwardCall : BlockBackward {
  explicit BlockBackwardCall(BlockBackward p, Keeps keeps_ = Keeps::kNothing)
      : BlockBackward(std::move(p)), keeps(keeps_) {}
  Keeps keeps;
};

// ---- Results ----

/// One of those that a run was asked for.
struct Result {
  std::size_t of;  ///< which one, of all that the operation has
  std::string name;
  Axes shape;
  Numbers numbers;
};
using Results = std::vector<Result>;

Results run(Problem& p, const Context& context);
Results run(Block& p, const Context& context);
Results run(GraphProblem& p, const Context& context);
Results run(BackwardProblem& p, const Context& context);
Results run(BlockBackwardCall& p, const Context& context);
Results run(GraphBackwardProblem& p, const Context& context);
Results run(Merge& m, const Context& context);

/// The same, or none and a failed check where the run fails. (Messages of Catch2 outlive
/// exceptions: none passes.)
template <class AnyProblem>
std::optional<Results> try_run(AnyProblem& p, const Context& context) {
  try {
    return run(p, context);
  } catch (const std::runtime_error& error) {
    FAIL_CHECK(error.what());
    return std::nullopt;
  }
}

/// Whether results of two runs of the same problem have the same bits.
bool check_bits(const std::string& what, const Results& a, const Results& b);

/// Whether those results that both runs have are the same numbers; where types differ, those of
/// `a` are those of `b` rounded. Of NaN the payload does not matter.
bool check_same_numbers(const std::string& what, const Results& a, const Results& b);

// ---- The oracle ----

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

/// The elements that a result should have on an instruction set.
using Wanted = std::function<std::vector<Element>(const std::string& isa, const Result& got)>;

Wanted wanted(Expected all);
inline Wanted wanted(Problem& p) { return wanted(p.expected_all()); }
inline Wanted wanted(Block& p) { return wanted(p.expected()); }
Wanted wanted(GraphProblem& p);
Wanted wanted(BackwardProblem& p);
Wanted wanted(BlockBackwardCall& p);
Wanted wanted(GraphBackwardProblem& p);
Wanted wanted(Merge& m);

/// Compares all results of a run with the oracle; the worst error / bound.
double check_results(const std::string& what, const Results& got, const Wanted& want,
                     const std::string& isa, Unspecified unspecified = Unspecified::kForbidden);

/// Runs a problem on every instruction set and compares all results with the oracle.
template <class AnyProblem>
void check_problem(AnyProblem& p, const Wanted& want, Report* report = nullptr,
                   Unspecified unspecified = Unspecified::kForbidden) {
  const std::string line = line_of(p);
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    const std::string isa = IsaContexts::name(n);
    INFO(isa << ": " << line);
    const double worst =
        check_results(isa + ": " + line, run(p, plain_contexts()[n]), want, isa, unspecified);
    if (report != nullptr) report->add(n, worst);
  }
  SUCCEED();
}
template <class AnyProblem>
void check_problem(AnyProblem& p, Report* report = nullptr,
                   Unspecified unspecified = Unspecified::kForbidden) {
  check_problem(p, wanted(p), report, unspecified);
}

}  // namespace heed_test
