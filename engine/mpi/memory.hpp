// The workspace of a call that makes its plan itself.
#pragma once

#include <cstdlib>
#include <memory>

#include "api/heed.h"
#include "engine/runtime/error.hpp"

namespace heed::mpi {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

inline Memory allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  Memory memory(std::aligned_alloc(HEED_WORKSPACE_ALIGNMENT, bytes));
  if (memory == nullptr)
    fail(HEED_STATUS_OUT_OF_MEMORY, "the workspace needs %zu bytes, which are not to be had",
         bytes);
  return memory;
}

}  // namespace heed::mpi
