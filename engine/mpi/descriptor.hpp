// This rank's descriptor: read and checked, as far as it can be without the others.
#pragma once

#include "engine/mpi/problem.hpp"

namespace heed::mpi {

/// Of a mask or bias that runs do not bring: one element, however long sequences are.
inline constexpr heed_score_layout kNoScores = {0, 0, 1, 1, 1, 1, 0, 0, 0, 0};

/// Throws an Error that names the field, its value and the bound.
void read(Problem& problem, const heed_context& context, const heed_mpi_attention_desc* desc);
void read(Problem& problem, const heed_context& context,
          const heed_mpi_attention_backward_desc* desc);

}  // namespace heed::mpi
