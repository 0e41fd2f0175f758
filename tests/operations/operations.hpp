// The operations that every property is tested of: attention, blocks, graphs, the gradients of
// each, and merges; a problem of each from a seed.
#pragma once

#include "tests/problem/random_problems.hpp"
#include "tests/support/checks.hpp"
#include "tests/support/executors.hpp"

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

/// Threads, executors and tiles change no bit on any instruction set.
template <class AnyProblem>
void check_shared(AnyProblem p) {
  INFO(line_of(p));
  for (const char* const isa : isa_names()) {
    const Results want = run(p, make_context(isa));
    each_executor(isa, [&](const std::string& name, const Context& context) {
      check_bits(isa + (", " + name), run(p, context), want);
    });
    for (const auto& [tile_q, tile_kv] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
             {1, 1}, {1000, 128}, {50, 200}, {64, 10000}})
      check_bits(isa + (", tiles " + std::to_string(tile_q)),
                 run(p, make_context(isa, {"serial", 1, tile_q, tile_kv})), want);
  }
}

}  // namespace heed_test
