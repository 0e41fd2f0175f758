// Checks of projections by themselves.
#pragma once

#include "engine/projection/project.hpp"

namespace heed {

/// Throws if y overlaps x, and tells on stderr what looks odd. The projection has been validated.
void check_project(const heed_context& context, const ProjectProblem& problem,
                   const Project& project);

}  // namespace heed
