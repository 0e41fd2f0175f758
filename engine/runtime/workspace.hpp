// The workspace that a caller brings to a run.
#pragma once

#include <cstddef>

namespace heed {

/// Throws an Error unless the workspace is there, large enough and aligned.
void check_workspace(const void* workspace, std::size_t bytes, std::size_t needed);

}  // namespace heed
