// What HEED_VERBOSE=1 says about a run of a block, or of its gradients.
#pragma once

#include "engine/multihead/backward/plan.hpp"
#include "engine/multihead/plan.hpp"

namespace heed {

/// Prints one line about a run that took `seconds` to stderr.
void print_run(const heed_multihead_plan& plan, const heed_multihead_args& args,
               double seconds) noexcept;
void print_run(const heed_multihead_backward_plan& plan, const heed_multihead_backward_args& args,
               double seconds) noexcept;

}  // namespace heed
