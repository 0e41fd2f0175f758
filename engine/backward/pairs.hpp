// Gradients by products of pairs of bfloat16: probabilities and gradients of scores are rounded to
// that before they meet queries, keys and gradients of out, and all sums are of float32, as in T.
// Dao 2023, "FlashAttention-2". What else becomes of scores, and gradients that are one number or
// of a bias, sees them as they were before.
#pragma once

#include "engine/backward/plan.hpp"

namespace heed {

/// Whether all that a key head's gradients are made of is finite, so that a probability of 0 keeps
/// from each row what it does not attend. Other heads are computed without pairs, all of their
/// rows: which of the two depends on the head alone, not on tiles and threads.
bool pairs_suffice(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                   const Sequence& sequence, std::int64_t key_head);

}  // namespace heed
