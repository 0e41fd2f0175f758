// A multi-head block from a checked descriptor to its output: the whole path on one screen.
#pragma once

#include <cstddef>

#include "engine/multihead/plan.hpp"

namespace heed {

/// The arguments of the attention inside, whose tensors lie in the workspace or in what is kept.
heed_attention_args placed_arguments(const heed_multihead_plan& plan,
                                     const heed_multihead_args& args, std::byte* tensors);

/// Throws an Error unless all arguments make sense. Returns those of the attention inside.
heed_attention_args checked_arguments(const heed_multihead_plan& plan,
                                      const heed_multihead_args& args, std::byte* workspace);

/// All of a run but combining the heads, with arguments that are checked.
void project_and_attend(const heed_multihead_plan& plan, const heed_multihead_args& args,
                        const heed_attention_args& attention, std::byte* workspace,
                        std::byte* tensors);

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_multihead_plan& plan, const heed_multihead_args& args, void* workspace,
              std::size_t bytes);

/// HEED_VERBOSE=1: one line on stderr for a run that took `seconds`.
void print_run(const heed_multihead_plan& plan, const heed_multihead_args& args,
               double seconds) noexcept;

}  // namespace heed
