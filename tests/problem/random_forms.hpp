// Random attention of every form, and gradients of it: each option is drawn on its own, so that any
// may meet any other. First a descriptor, then all that else belongs to a run.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/problem/attention_backward.hpp"
#include "tests/problem/draw.hpp"

namespace heed_test {

/// Whether keys may be as many as they like, are the queries' own rows, are thousands for few
/// queries, or some hundreds for so few that rows are decoded, where they lie, on most instruction
/// sets; or as any, for so many heads that ranks share them, or so small that fuzzers run thousands
/// of them in a second, nothing at all among them. Or sizes are those about which vectors, panels
/// and steps of keys end; scores are such as random numbers do not have; or there is so much of one
/// or the other that threads share it.
enum class Lengths { kAny, kSelf, kLong, kFew, kShared, kSmall, kEdges, kScores, kLarge };

/// Forms with gradients have no outputs but out and lse; those of blocks have heads, and neither
/// pages nor layouts of query, key, value and out.
struct Forms {
  Lengths lengths = Lengths::kAny;
  bool differentiable = false;
  bool of_block = false;
};

/// Whether windows and ALiBi know where rows stand.
inline bool stands(const heed_attention_desc& d) {
  return d.causal != HEED_CAUSAL_NONE || d.alignment != HEED_ALIGNMENT_DEFAULT ||
         d.query_length == d.key_length;
}

/// A valid descriptor.
heed_attention_desc draw_attention(Draw& draw, const Forms& forms = {});
/// Valid numbers and arrays of a run, and which outputs it has.
void draw_arrays(Draw& draw, const Forms& forms, Problem& problem);
Problem draw_problem(Draw& draw, const Forms& forms = {});

heed_attention_backward_desc draw_backward(Draw& draw, const heed_attention_desc& attention);

/// A problem of a seed.
Problem draw_problem(std::uint64_t seed, const Forms& forms = {});
template <Lengths lengths>
Problem drawn(std::uint64_t seed) {
  return draw_problem(seed, {lengths});
}

/// One with gradients that are asked for and lie anyhow. out and lse are yet to be set.
BackwardProblem draw_backward(std::uint64_t seed, Lengths lengths = Lengths::kAny);

/// The options that a problem has, in words.
std::vector<const char*> options_of(const Problem& p);

}  // namespace heed_test
