// The checks around a checked run of a multi-head block, and of the matrices that it reads.
#pragma once

#include "engine/check/operands.hpp"
#include "engine/check/workspace.hpp"
#include "engine/multihead/plan.hpp"

namespace heed {

/// Throws what is certainly wrong, and tells on stderr what looks odd.
void check_before(const heed_multihead_plan& plan, const heed_multihead_args& args,
                  const CheckedWorkspace& workspace);
/// Tells what looks odd about the result.
void check_after(const heed_multihead_plan& plan, const heed_multihead_args& args);

}  // namespace heed
