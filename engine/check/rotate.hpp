// Checks of rotary embedding.
#pragma once

#include "engine/dense/rotate.hpp"

namespace heed {

/// Throws if `to` overlaps what it must not, and tells on stderr what looks odd. The rotation has
/// been validated.
void check_rotate(const heed_context& context, const RotateProblem& problem, const Rotate& rotate);

}  // namespace heed
