// HEED_VERBOSE=1: one line on stderr for each run.
#pragma once

#include "engine/dense/plan.hpp"

namespace heed {

void print_run(const heed_attention_plan& plan, double seconds) noexcept;

}  // namespace heed
