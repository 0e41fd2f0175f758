// HEED_VERBOSE=1: one line on stderr for each run.
#pragma once

#include "engine/dense/plan.hpp"
#include "engine/runtime/text.hpp"

namespace heed {

/// The options in force.
Text options_of(const Problem& problem, const heed_attention_args& args);

/// The speed counts every pair that windows allow, masked or not, and sequences at full length.
void print_run(const heed_attention_plan& plan, const heed_attention_args& args,
               double seconds) noexcept;

}  // namespace heed
