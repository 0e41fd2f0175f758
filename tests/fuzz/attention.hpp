// What targets of attention, of blocks, of graphs and of their gradients share: which descriptors
// are small enough to run, arrays that are not valid, and what must be there after a run.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <vector>

#include "tests/fuzz/check.hpp"
#include "tests/problem/random_problems.hpp"
#include "tests/support/compare.hpp"

namespace heed_test {

/// Demands that all can be addressed, and that elements of outputs lie apart; whether they are
/// worth allocating.
bool small(const std::vector<LaidOut>& all);
/// Of what heed has yet to accept: whether it may, and all are worth allocating.
bool may_be_small(const std::vector<LaidOut>& all);
/// The block of descriptors that heed has accepted, or none if it is not small.
std::optional<Block> small_block(Draw& draw, heed_multihead_desc block,
                                 heed_attention_desc attention);
/// Whether there is little to compute, and the table of blocks may be.
bool little_work(const heed_attention_desc& desc);

/// What the fuzzer's bytes make arrays of.
inline constexpr Forms kSmallForms = {Lengths::kSmall, false, false};
inline constexpr Forms kSmallGradients = {Lengths::kSmall, true, false};
inline constexpr Forms kSmallBlocks = {Lengths::kSmall, false, true};
inline constexpr Forms kSmallBlockGradients = {Lengths::kSmall, true, true};

/// Spoils a number of an array seldom: whether what is given is no longer known to be valid.
bool spoil(Draw& draw, Problem& problem);

void check_untouched(const std::optional<Tensor>& tensor);
/// Outputs beside out.
void check_further(const Problem& problem, const heed_attention_args& args, const Expected& want);
void check_further_untouched(const Problem& problem);

/// What the score function does, if the run has got one: a shorter struct may lack it.
inline ScoreModel model_of(const Problem& problem, const heed_attention_args& args) {
  return args.score_function != nullptr ? problem.function.model : ScoreModel();
}

/// Fields of args that damage_pointers must leave alone: a byte further they are as good as before,
/// and end where nobody may read.
inline constexpr std::initializer_list<std::size_t> kBytewise = {
    offsetof(heed_attention_args, mask), offsetof(heed_attention_args, score_function),
    offsetof(heed_attention_args, score_user)};

/// The same of a block's: what is no tensor is no object.
inline constexpr std::initializer_list<std::size_t> kBlockObjects = {
    offsetof(heed_multihead_args, attention), offsetof(heed_multihead_args, p_query),
    offsetof(heed_multihead_args, p_key), offsetof(heed_multihead_args, p_value),
    offsetof(heed_multihead_args, p_out)};

/// Nobody has written a gradient: those that are added to are as before.
template <class Gradients>
void check_gradients_untouched(const Gradients& p) {
  for (const auto of : p.all()) {
    if (!p.gradients[of]) continue;
    if (!p.accumulates())
      check_untouched(*p.gradients[of]);
    else
      demand(same_bits(p.gradients[of]->numbers(), p.before()[of]->numbers()),
             "a refused call changed a gradient");
  }
}

/// Runs with these arguments, whole or damaged, and checks the gradients of those that are `valid`.
template <class Plan, class Args, class Gradients, class Want>
void check_run(Draw& draw, const Plan* plan, Args args, std::initializer_list<std::size_t> kept,
               bool valid, const Gradients& p, const Want& want) {
  const bool damaged = draw.damage_pointers(args, kept);
  const Versioned<Args> given(draw, args);
  // A struct of another size may end in the middle of a pointer.
  const bool whole = valid && !damaged && !given.odd();
  if (!ran(draw, plan, given.get(), whole)) return check_gradients_untouched(p);
  for (const auto of : p.all())
    if (whole && p.gradients[of]) check_equal(name_of(of), *p.gradients[of], want[of]);
}

// ---- Graphs ----

/// A plan over a graph.
template <class Desc>
auto planned(bool damaged, const heed_graph* graph, const Desc* desc) {
  return made<typename PlanOf<Desc>::Plan>(damaged, {"desc."}, fuzz_context().get(), graph, desc);
}

/// Demands that all tensors of what heed has accepted can be addressed, and that elements of
/// outputs lie apart; whether all are worth allocating here, and there is little to compute.
inline bool small(heed_graph_attention_desc& d, const EdgeList& edges) {
  constexpr std::int64_t kMostWork = 1 << 16;
  std::vector<LaidOut> all;
  for (std::size_t of = 0; of < kGraphTensors; ++of)
    if (has(d, of)) all.push_back(laid_out(d, edges, of));
  Wide128 work = (edges.size() + edges.nodes + 1) * Wide128{d.heads};
  work *= d.features + value_features_of(d);
  work *= steps_of(d);
  work *= 1 + d.width + d.edge_width;
  return small(all) && work <= kMostWork;
}

/// Fields of its arguments that damage_pointers must leave alone: a byte further, what is no tensor
/// is no object.
inline constexpr std::initializer_list<std::size_t> kGraphObjects = {
    offsetof(heed_graph_attention_args, p_query), offsetof(heed_graph_attention_args, p_key),
    offsetof(heed_graph_attention_args, p_value)};

}  // namespace heed_test
