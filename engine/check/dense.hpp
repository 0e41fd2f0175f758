// The checks around a checked run of dense attention.
#pragma once

#include "engine/check/workspace.hpp"
#include "engine/dense/plan.hpp"

namespace heed {

/// Throws what is certainly wrong, and tells on stderr what looks odd.
void check_before(const heed_attention_plan& plan, const heed_attention_args& args,
                  const CheckedWorkspace& workspace);
/// Tells what looks odd about the result.
void check_after(const heed_attention_plan& plan, const heed_attention_args& args);

}  // namespace heed
