// Projects data to queries, keys and values.
#pragma once

#include "engine/graph/step.hpp"

namespace heed {

/// Computes them in the workspace, and points the step at them.
void project(GraphStep& step);

}  // namespace heed
