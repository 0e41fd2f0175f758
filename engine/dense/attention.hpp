// Dense attention from a checked descriptor to its output: the path of engine/README.md.
#pragma once

#include <cstddef>

#include "engine/dense/plan.hpp"

namespace heed {

/// Throws an Error before the first output is written, or not at all.
void run_plan(const heed_attention_plan& plan, const heed_attention_args& args, void* workspace,
              std::size_t bytes);

}  // namespace heed
