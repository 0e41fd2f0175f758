// Checks of merges.
#pragma once

#include "engine/dense/merge.hpp"

namespace heed {

/// Throws if outputs overlap what they must not, and tells on stderr what looks odd. The merge has
/// been validated.
void check_merge(const heed_context& context, const MergeProblem& problem, const Merge& merge);

}  // namespace heed
