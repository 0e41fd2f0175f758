// The memory that a caller lends a run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/heed.h"
#include "engine/runtime/error.hpp"

namespace heed {

/// Throws unless the workspace has the bytes that a plan needs and is aligned.
inline void check_workspace(std::size_t needed, const void* workspace, std::size_t bytes) {
  if (bytes < needed)
    fail(HEED_STATUS_INVALID_WORKSPACE, "workspace_bytes is %zu; this plan needs %zu", bytes,
         needed);
  if (needed == 0) return;
  if (workspace == nullptr)
    fail(HEED_STATUS_INVALID_WORKSPACE, "workspace is NULL; this plan needs %zu bytes", needed);
  if (reinterpret_cast<std::uintptr_t>(workspace) % HEED_WORKSPACE_ALIGNMENT != 0)
    fail(HEED_STATUS_INVALID_WORKSPACE, "workspace is %p; it must be a multiple of %d", workspace,
         HEED_WORKSPACE_ALIGNMENT);
}

}  // namespace heed
