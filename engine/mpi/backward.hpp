// Gradients of attention over ranks.
#pragma once

#include "engine/mpi/plan.hpp"

struct heed_mpi_attention_backward_plan : heed::mpi::Plan {
  heed_mpi_attention_backward_plan(MPI_Comm parent, const heed_context* given,
                                   const heed_mpi_attention_backward_desc* desc);

  std::vector<heed::mpi::DenseBackwardPlan> dense;  ///< by form

  /// Offsets into the workspace, of sums in the arithmetic's type.
  std::size_t grad_query_at = 0;  ///< of all slices
  /// How the gradient of the bias lies there, or among the results that ranks which share heads
  /// exchange: with exchanges_bias.
  heed_score_layout grad_bias = {};
  std::size_t grad_bias_at = 0;
  bool exchanges_bias = false;
  std::size_t sinks_at = 0, slopes_at = 0;  ///< [query_heads], of all ranks
  std::size_t scale_at = 0, temperature_at = 0;
  std::size_t sums_begin = 0, sums_end = 0;      ///< all of these; they begin as 0
  std::size_t shared_begin = 0, part_bytes = 0;  ///< those of all ranks, up to sums_end, in parts
  std::size_t parts_at = 0;                      ///< every rank's part of them
  std::size_t room_at = 0;                       ///< for what gradients are added to

 private:
  void plan_workspace();
};

namespace heed::mpi {

/// Computes; collective.
void run(const heed_mpi_attention_backward_plan& plan, const heed_attention_backward_args* args,
         void* workspace, std::size_t bytes);

}  // namespace heed::mpi
