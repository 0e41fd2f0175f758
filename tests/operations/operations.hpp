// The operations that every property is tested of: attention, blocks, graphs, the gradients of
// each, and merges. A problem of any of them is drawn, run and compared with the oracle by the same
// calls.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/dense/kinds.hpp"
#include "tests/problem/block_backward.hpp"
#include "tests/problem/draw_graphs.hpp"
#include "tests/problem/merge.hpp"
#include "tests/problem/random_blocks.hpp"
#include "tests/problem/random_forms.hpp"
#include "tests/support/contexts.hpp"

namespace heed_test {

// ---- A problem of each, from a seed ----

inline Problem draw_form(std::uint64_t seed) { return draw_problem(seed); }
inline GraphProblem draw_graph(std::uint64_t seed) { return draw_graph_problem(seed); }
/// out and lse are there already.
BackwardProblem draw_gradients(std::uint64_t seed, Lengths lengths = Lengths::kAny);
inline BackwardProblem draw_any_gradients(std::uint64_t seed) { return draw_gradients(seed); }
inline BlockBackwardCall draw_block_gradients(std::uint64_t seed) {
  return BlockBackwardCall(draw_block_backward(seed));
}
inline GraphBackwardProblem draw_graph_gradients(std::uint64_t seed) {
  return draw_graph_backward(seed);
}

// ---- Options, in words ----

std::vector<const char*> options_of(const Block& p);
std::vector<const char*> options_of(const GraphProblem& p);
inline std::vector<const char*> options_of(const BackwardProblem& p) {
  return options_of(p.forward);
}
std::vector<const char*> options_of(const BlockBackward& p);
inline std::vector<const char*> options_of(const Merge&) { return {}; }
inline std::vector<const char*> options_of(const GraphBackwardProblem& p) {
  return options_of(p.forward);
}

}  // namespace heed_test
