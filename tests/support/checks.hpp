// Problems of every operation, run and compared with the oracle by the same calls: attention,
// blocks, graphs, the gradients of each, and merges.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/catch.hpp"
#include "tests/problem/results.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/size.hpp"

namespace heed_test {

// ---- Problems ----

/// A problem with normally distributed numbers.
Problem filled(const Sizes& sizes, std::uint64_t seed, float amplitude = 1);

/// A window around positions that lie `offset` keys after their rows.
void set_window(Problem& p, std::int64_t left, std::int64_t right, std::int64_t offset);

/// All outputs that a problem may have.
void want_all(Problem& p, heed_weights_point point = HEED_WEIGHTS_PROBABILITIES);

/// Calls check(outputs), or check(outputs, n), with what a problem, block or merge gives on the
/// n-th instruction set.
template <class Runnable, class Check>
void on_every_isa(Runnable& problem, Check&& check) {
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    INFO(IsaContexts::name(n) << ": " << line_of(problem));
    const auto outputs = problem.run_all(plain_contexts()[n]);
    if constexpr (std::is_invocable_v<Check, decltype(outputs)>)
      check(outputs);
    else
      check(outputs, n);
  }
}

// ---- Results ----

/// Whether element i of one and element k of the other were written alike and have the same bits;
/// of NaN the payload does not matter.
bool same_element(const Numbers& a, std::size_t i, const Numbers& b, std::size_t k);

/// Whether both are the same number, the sign of 0 included, or both NaN.
bool same_number(double a, double b);

/// Results, or none and a failed check where the run fails. (Messages of Catch2 outlive
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

/// Whether both are the same numbers; where types differ, those of `a` are those of `b` rounded. Of
/// NaN the payload does not matter.
bool check_same(const std::string& what, const Numbers& a, const Numbers& b);
bool check_same(const std::string& what, const Outputs& a, const Outputs& b);
/// The same of those results that both runs have.
bool check_same_numbers(const std::string& what, const Results& a, const Results& b);

/// Whether both give the same on every instruction set.
template <class AnyProblem>
bool check_same(AnyProblem& a, AnyProblem& b) {
  bool same = true;
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    const Context& context = plain_contexts()[n];
    same = check_same_numbers(IsaContexts::name(n) + (": " + line_of(a)), run(a, context),
                              run(b, context)) &&
           same;
  }
  return same;
}

// ---- The oracle ----

/// Compares an output with the oracle, element by element; the worst error / bound.
double check_elements(const std::string& what, const Numbers& got, const std::vector<Element>& want,
                      Unspecified unspecified = Unspecified::kForbidden);

/// The elements that a result should have on an instruction set.
using Wanted = std::function<std::vector<Element>(const std::string& isa, const Result& got)>;

Wanted wanted(Expected all);
inline Wanted wanted(Problem& p) { return wanted(p.expected()); }
inline Wanted wanted(Block& p) { return wanted(p.expected()); }
inline Wanted wanted(GraphProblem& p) { return wanted(p.expected()); }
inline Wanted wanted(Merge& m) { return wanted(m.expected()); }
Wanted wanted(BackwardProblem& p);
Wanted wanted(BlockBackward& p);
Wanted wanted(GraphBackwardProblem& p);
Wanted wanted(Projection& p);

/// Compares all results of a run with the oracle; the worst error / bound.
double check_results(const std::string& what, const Results& got, const Wanted& want,
                     const std::string& isa, Unspecified unspecified = Unspecified::kForbidden);

/// Runs a problem on every instruction set and compares all results with the oracle.
template <class AnyProblem>
void check_problem(AnyProblem& p, const Wanted& want,
                   Unspecified unspecified = Unspecified::kForbidden) {
  const std::string line = line_of(p);
  for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
    const std::string isa = IsaContexts::name(n);
    INFO(isa << ": " << line);
    check_results(isa + ": " + line, run(p, plain_contexts()[n]), want, isa, unspecified);
  }
  SUCCEED();
}
template <class AnyProblem>
void check_problem(AnyProblem& p, Unspecified unspecified = Unspecified::kForbidden) {
  check_problem(p, wanted(p), unspecified);
}

// ---- Random problems ----

/// Calls check(problem, seed) for the problems that draw(seed) draws; check says whether there was
/// something to see, which `at_least` so many of the full number must have.
template <class Draws, class Check>
void check_drawn(std::size_t full, std::size_t at_least, Draws&& draw, Check&& check) {
  std::size_t seen = 0;
  for (std::uint64_t seed = 1; seed <= count(full); ++seed) {
    auto problem = draw(seed);
    INFO("seed " << seed << ": " << line_of(problem));
    seen += check(problem, seed) ? 1 : 0;
  }
  CHECK((small() || seen >= at_least));
}

// ---- Problems with all their gradients ----

/// All gradients of a problem, out and lse as heed computes them.
inline BackwardProblem all_gradients_of(Problem forward, std::uint64_t seed = 1,
                                        const Form& of_out = {}) {
  forward.want_nothing_else();
  BackwardProblem p(std::move(forward), seed, of_out);
  p.give_grad_lse(seed + 100);
  p.want_all();
  p.attend(plain_contexts()[0]);
  return p;
}

inline BlockBackward all_gradients_of(Block block) {
  block.attention.want_nothing_else();
  BlockBackward p(std::move(block), 1);
  p.give_grad_lse(101);
  p.want_all();
  return p;
}

inline GraphBackwardProblem all_gradients_of(GraphProblem forward) {
  GraphBackwardProblem p(std::move(forward), 1);
  p.give_grad_lse(101);
  p.want_all();
  return p;
}

}  // namespace heed_test
