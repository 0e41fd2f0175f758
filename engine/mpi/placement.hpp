// Which rows of the whole sequence the ranks have.
#pragma once

#include <cstdint>
#include <vector>

#include "api/heed_mpi.h"
#include "engine/mpi/communicator.hpp"
#include "engine/mpi/spans.hpp"

namespace heed::mpi {

/// A shard may have so many spans of queries, and of keys.
inline constexpr std::size_t kMostSpans = 1024;

/// The rows of a sequence that a rank has where lengths differ as little as they can: rows[0] and
/// rows[1].
void place(std::uint32_t placement, std::int64_t length, int ranks, int rank, heed_mpi_rows* rows);

/// The rows of one kind, queries or keys, that this rank has.
struct OwnRows {
  const char* name;               ///< "query" or "key"
  std::int64_t length;            ///< how many
  const std::int64_t* positions;  ///< [length], with HEED_MPI_POSITIONS
};

/// The spans of all ranks, by rank. Collective. Throws the same Error on all ranks unless together
/// they have every position once.
std::vector<Spans> gather_spans(const Communicator& comm, std::uint32_t placement,
                                const OwnRows& own);

/// Cuts the spans of all ranks where sequences of a packed batch begin: sequence n has the
/// positions from begins[n] to begins[n + 1] - 1, and together they have all.
void cut(const OwnRows& own, const std::int32_t* begins, std::size_t sequences,
         std::vector<Spans>& all);

/// What several shards have together, in order of positions: spans that meet become one.
Spans together(const std::vector<Spans>& all, int first, int count);

/// The row of a shard that has this position.
std::int64_t row_at(const Spans& spans, std::int64_t position);

}  // namespace heed::mpi
