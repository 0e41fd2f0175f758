// Problems with all their gradients, that tests share.
#pragma once

#include <utility>

#include "tests/problem/random_forms.hpp"
#include "tests/support/checks.hpp"

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

/// Gradients of a block: from what is kept and from nothing, to the same bits.
inline void check_kept(const BlockBackward& p) {
  BlockBackwardCall plain(p), kept(p, Keeps::kAll);
  check_problem(plain);
  for (std::size_t n = 0; n < plain_contexts().size(); ++n)
    check_bits(IsaContexts::name(n) + (": " + line_of(p)), run(kept, plain_contexts()[n]),
               run(plain, plain_contexts()[n]));
}

}  // namespace heed_test
