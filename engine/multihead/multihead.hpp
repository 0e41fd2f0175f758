// A multi-head block from a checked descriptor to its output: the whole path on one screen.
#pragma once

#include <cstddef>

#include "engine/multihead/plan.hpp"

namespace heed {

/// Throws an Error unless all arguments make sense. Returns those of the attention inside, whose
/// tensors lie in the workspace.
heed_attention_args checked_arguments(const heed_multihead_plan& plan,
                                      const heed_multihead_args& args, std::byte* workspace);

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_multihead_plan& plan, const heed_multihead_args& args, void* workspace,
              std::size_t bytes);

}  // namespace heed
