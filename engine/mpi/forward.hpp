// Attention over ranks.
#pragma once

#include "engine/mpi/plan.hpp"

struct heed_mpi_attention_plan : heed::mpi::Plan {
  heed_mpi_attention_plan(MPI_Comm parent, const heed_context* given,
                          const heed_mpi_attention_desc* desc);

  std::vector<heed::mpi::DensePlan> dense;  ///< by form

  /// Offsets into the workspace.
  std::size_t out_at = 0, lse_at = 0;            ///< of all slices, merged so far
  std::size_t merged_bytes = 0;                  ///< of both
  std::size_t part_out_at = 0, part_lse_at = 0;  ///< of one call
  std::size_t gathered_at = 0;                   ///< results of all ranks
  std::size_t pointers_at = 0;                   ///< to what is merged

 private:
  void plan_workspace();
};

namespace heed::mpi {

/// Computes; collective.
void run(const heed_mpi_attention_plan& plan, const heed_attention_args* args, void* workspace,
         std::size_t bytes);

}  // namespace heed::mpi
