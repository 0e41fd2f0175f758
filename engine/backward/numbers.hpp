// Gradients that are one number, or one per head: sums over rows, in order.
#pragma once

#include "engine/backward/plan.hpp"

namespace heed {

/// `terms` are those of all rows.
template <class Real>
void write_numbers(const heed_attention_backward_plan& plan, const BackwardArgs& args,
                   const RowTerms* terms);

}  // namespace heed
