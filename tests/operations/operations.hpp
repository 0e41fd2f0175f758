// The operations that every property is tested of: attention, blocks, graphs, the gradients of
// each, and merges; a problem of each from a seed.
#pragma once

#include "tests/dense/kinds.hpp"
#include "tests/problem/draw_graphs.hpp"
#include "tests/problem/random_blocks.hpp"

namespace heed_test {

inline Problem draw_form(std::uint64_t seed) { return draw_problem(seed); }
inline GraphProblem draw_graph(std::uint64_t seed) { return draw_graph_problem(seed); }
/// out and lse are there already.
inline BackwardProblem draw_gradients(std::uint64_t seed, Lengths lengths = Lengths::kAny) {
  BackwardProblem p = draw_backward(seed, lengths);
  p.attend(plain_contexts()[0]);
  return p;
}
inline BackwardProblem draw_any_gradients(std::uint64_t seed) { return draw_gradients(seed); }
inline BlockBackward draw_block_gradients(std::uint64_t seed) { return draw_block_backward(seed); }
inline GraphBackwardProblem draw_graph_gradients(std::uint64_t seed) {
  return draw_graph_backward(seed);
}

}  // namespace heed_test
