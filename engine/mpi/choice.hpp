// Ring, heads or both: what each would cost.
#pragma once

#include <vector>

#include "engine/mpi/problem.hpp"
#include "engine/mpi/ring.hpp"

namespace heed::mpi {

/// The ring of groups of so many ranks that share heads.
Ring ring_of(const Problem& problem, int head_ranks);

/// Bytes that travel of one row of keys and values, where heads are shared so.
double bytes_of_keys(const Problem& problem, int head_ranks);
/// And of its gradients, on their way back.
double bytes_of_gradients(const Problem& problem, int head_ranks);

/// Every number of head_ranks that is possible, or the one that the caller wants; one is chosen.
/// Throws an Error if what the caller wants is not possible.
std::vector<heed_mpi_choice> choices_of(const Problem& problem);

}  // namespace heed::mpi
