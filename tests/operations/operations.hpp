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
#include "tests/problem/random_blocks.hpp"
#include "tests/problem/random_forms.hpp"
#include "tests/problem/random_merges.hpp"
#include "tests/support/contexts.hpp"

namespace heed_test {

/// Gradients of a block, and whether the block keeps what they need.
struct BlockBackwardCall : BlockBackward {
  explicit BlockBackwardCall(BlockBackward p, Keeps keeps_ = Keeps::kNothing)
      : BlockBackward(std::move(p)), keeps(keeps_) {}
  Keeps keeps;
};

// ---- A problem of each, from a seed ----

inline Problem draw_form(std::uint64_t seed) { return RandomForms(seed).draw(); }
inline Problem draw_few(std::uint64_t seed) { return FewForms(seed).draw(); }
inline Problem draw_long(std::uint64_t seed) { return LongForms(seed).draw(); }
inline Block draw_block(std::uint64_t seed) { return RandomBlocks(seed).draw(); }
inline GraphProblem draw_graph(std::uint64_t seed) { return draw_graph_problem(seed); }
/// out and lse are there already.
BackwardProblem draw_gradients(std::uint64_t seed);
inline BlockBackwardCall draw_block_gradients(std::uint64_t seed) {
  return BlockBackwardCall(draw_block_backward(seed));
}
inline GraphBackwardProblem draw_graph_gradients(std::uint64_t seed) {
  return draw_graph_backward(seed);
}

inline Merge draw_merge(std::uint64_t seed) { return RandomMerges(seed).draw(); }

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

/// The elements that a result should have on an instruction set.
using Wanted = std::function<std::vector<Element>(const std::string& isa, const Result& got)>;

Wanted wanted(Problem& p);
Wanted wanted(Block& p);
Wanted wanted(GraphProblem& p);
Wanted wanted(BackwardProblem& p);
Wanted wanted(BlockBackwardCall& p);
Wanted wanted(GraphBackwardProblem& p);
Wanted wanted(Merge& m);

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
