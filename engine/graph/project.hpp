// From data to queries, keys and values.
#pragma once

#include "engine/graph/step.hpp"

namespace heed {

/// Computes them in the workspace, and says so in the step.
void project(GraphStep& step);

}  // namespace heed
