// Checks of gradients that the tests share.
#pragma once

#include <string>
#include <utility>

#include "tests/dense/kinds.hpp"
#include "tests/problem/random_backward.hpp"

namespace heed_test {

/// The gradients of a problem, of everything that has one, out and lse as heed computes them.
inline BackwardProblem all_gradients_of(Problem forward, std::uint64_t seed = 1,
                                        const Form& of_out = {}) {
  forward.want_nothing_else();
  BackwardProblem p(std::move(forward), seed, of_out);
  p.give_grad_lse(seed + 100);
  p.want_all();
  p.attend(plain_contexts()[0]);
  return p;
}

/// Compares with the oracle; the worst error / bound.
inline double check_gradients(const std::string& what, const BackwardProblem& p,
                              const Gradients& got, const ExpectedGradients& want,
                              Unspecified unspecified = Unspecified::kForbidden) {
  const GradientComparison comparison = compare_gradients(what, p, got, want, unspecified);
  if (!comparison.wrong.empty()) FAIL_CHECK(comparison.wrong);
  return comparison.worst();
}

/// The same of runs on every instruction set.
inline void check_backward(BackwardProblem& p, Report* report = nullptr,
                           Unspecified unspecified = Unspecified::kForbidden) {
  const ExpectedGradients want = p.expected();
  const std::string line = line_of(p);
  check_isas(line, report, [&](std::size_t n, const char* isa) {
    return check_gradients(isa + (": " + line), p, p.run(plain_contexts()[n]), want.on(isa),
                           unspecified);
  });
}

inline bool check_same(const std::string& what, const Gradients& a, const Gradients& b) {
  bool same = true;
  for (const GradientOf gradient : all_gradients())
    same =
        check_same(what + ", gradient of " + name_of(gradient), a[gradient], b[gradient]) && same;
  return same;
}

}  // namespace heed_test
