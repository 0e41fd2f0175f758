// Problems with all their gradients, and checks of gradients, that tests share.
#pragma once

#include <string>
#include <utility>

#include "tests/multihead/checks.hpp"
#include "tests/problem/block_backward.hpp"
#include "tests/problem/graph_backward.hpp"
#include "tests/problem/random_forms.hpp"

namespace heed_test {

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

/// Compares with the oracle; the worst error / bound.
template <class AnyProblem, class Gradients, class Expected>
double check_gradients(const std::string& what, const AnyProblem& p, const Gradients& got,
                       const Expected& want, Unspecified unspecified = Unspecified::kForbidden) {
  const auto comparison = compare_gradients(what, p, got, want, unspecified);
  if (!comparison.wrong.empty()) FAIL_CHECK(comparison.wrong);
  return comparison.worst();
}

inline bool check_same(const std::string& what, const Gradients& a, const Gradients& b) {
  bool same = true;
  for (const GradientOf of : all_gradients())
    same = check_same(what + ", gradient of " + name_of(of), a[of], b[of]) && same;
  return same;
}

/// Compares runs on every instruction set.
inline void check_backward(BackwardProblem& p, Report* report = nullptr,
                           Unspecified unspecified = Unspecified::kForbidden) {
  const ExpectedGradients want = p.expected();
  const std::string line = line_of(p);
  check_isas(line, report, [&](std::size_t n, const char* isa) {
    return check_gradients(isa + (": " + line), p, p.run(plain_contexts()[n]), want.on(isa),
                           unspecified);
  });
}

/// From what is kept and from nothing, to the same bits.
inline void check_backward(BlockBackward& p) {
  const std::string line = line_of(p);
  check_isas(line, nullptr, [&](std::size_t n, const char* isa) {
    const BlockGradients got = p.run(plain_contexts()[n]);
    const BlockGradients kept = p.run(plain_contexts()[n], Keeps::kAll);
    for (const BlockGradientOf of : all_block_gradients())
      check_same(std::string(name_of(of)) + ", kept", kept[of], got[of]);
    return check_gradients(isa + (": " + line), p, got, p.expected(isa));
  });
}

inline void check_backward(GraphBackwardProblem& p, Index parts = 1) {
  const ExpectedGraphGradients want = p.expected(parts);
  const std::string line = line_of(p);
  check_isas(line, nullptr, [&](std::size_t n, const char* isa) {
    return check_gradients(isa + (": " + line), p, p.run(plain_contexts()[n]), want);
  });
}

}  // namespace heed_test
