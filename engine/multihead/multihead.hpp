// A multi-head block from a checked descriptor to its output: the whole path on one screen.
#pragma once

#include <cstddef>

#include "engine/multihead/plan.hpp"

namespace heed {

/// The arguments of the attention inside, whose tensors lie in the workspace. Throws an Error
/// unless these and all others make sense.
heed_attention_args checked_arguments(const heed_multihead_plan& plan,
                                      const heed_multihead_args& args, std::byte* workspace);

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_multihead_plan& plan, const heed_multihead_args& args, void* workspace,
              std::size_t bytes);

}  // namespace heed
