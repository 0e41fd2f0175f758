// Checks of the gradients of blocks that the tests share.
#pragma once

#include <string>
#include <utility>

#include "tests/multihead/checks.hpp"
#include "tests/problem/block_backward.hpp"

namespace heed_test {

/// All gradients of a block.
inline BlockBackward all_gradients_of(Block block, std::uint64_t seed = 1) {
  block.attention.want_nothing_else();
  BlockBackward p(std::move(block), seed);
  p.give_grad_lse(seed + 100);
  p.want_all();
  return p;
}

/// Compares with the oracle; the worst error / bound.
inline double check_gradients(const std::string& what, const BlockBackward& p,
                              const BlockGradients& got, const ExpectedBlockGradients& want,
                              Unspecified unspecified = Unspecified::kForbidden) {
  const BlockComparison comparison = compare_gradients(what, p, got, want, unspecified);
  if (!comparison.wrong.empty()) FAIL_CHECK(comparison.wrong);
  return comparison.worst();
}

inline bool check_same(const std::string& what, const BlockGradients& a, const BlockGradients& b) {
  bool same = true;
  for (const BlockGradientOf gradient : all_block_gradients())
    same =
        check_same(what + ", gradient of " + name_of(gradient), a[gradient], b[gradient]) && same;
  return same;
}

/// Runs a block on every instruction set, from what is kept and from nothing, to the same bits, and
/// compares with the oracle.
inline void check_backward(BlockBackward& p, Report* report = nullptr,
                           Unspecified unspecified = Unspecified::kForbidden) {
  const std::string line = line_of(p);
  check_isas(line, report, [&](std::size_t n, const char* isa) {
    const ExpectedBlockGradients want = p.expected(isa);
    const BlockGradients got = p.run(plain_contexts()[n]);
    check_same(isa + (", kept: " + line), p.run(plain_contexts()[n], Keeps::kAll), got);
    return check_gradients(isa + (": " + line), p, got, want, unspecified);
  });
}

}  // namespace heed_test
