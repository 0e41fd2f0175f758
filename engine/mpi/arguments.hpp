// What a run's arguments must be on this rank.
#pragma once

#include "engine/mpi/plan.hpp"

namespace heed::mpi {

/// This rank's arguments. Throws an Error unless they are what the plan was told, and the workspace
/// is large enough.
heed_attention_args read_args(const Plan& plan, const heed_attention_args* given,
                              const void* workspace, std::size_t bytes);

/// Those of gradients, and of the attention inside.
struct BackwardArgs {
  heed_attention_backward_args gradients;
  heed_attention_args attention;
};
BackwardArgs read_args(const Plan& plan, const heed_attention_backward_args* given,
                       const void* workspace, std::size_t bytes);

}  // namespace heed::mpi
