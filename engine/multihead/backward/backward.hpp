// The gradients of a multi-head block, from a checked descriptor to its outputs.
#pragma once

#include <cstddef>

#include "engine/multihead/backward/plan.hpp"

namespace heed {

/// The arguments of the attention inside. Its tensors lie in the workspace, or in what is kept.
struct InnerBackward {
  std::byte* tensors;
  heed_attention_args attention;
  heed_attention_backward_args args;  ///< but for `attention`
};

/// Throws an Error unless all arguments make sense.
InnerBackward checked_arguments(const heed_multihead_backward_plan& plan,
                                const MultiheadBackwardArgs& args, std::byte* workspace);

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_multihead_backward_plan& plan, const heed_multihead_backward_args& args,
              void* workspace, std::size_t bytes);

}  // namespace heed
