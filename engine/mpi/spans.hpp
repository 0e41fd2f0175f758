// Rows by their positions in the whole sequence: which of them attend which, and which the ranks
// have.
#pragma once

#include <cstdint>
#include <vector>

#include "api/heed_mpi.h"
#include "engine/mpi/communicator.hpp"

namespace heed::mpi {

/// Rows [row, row + count) of a shard, which stand at consecutive positions, all in one sequence of
/// a packed batch.
struct Span {
  std::int64_t position, count, row;
  std::size_t sequence = 0;

  std::int64_t end() const { return position + count; }
  /// Whether a span goes on where this one ends.
  bool meets(const Span& next) const { return end() == next.position && sequence == next.sequence; }
};
using Spans = std::vector<Span>;

std::int64_t rows_in(const Spans& spans);

/// In order of positions.
Spans sorted(Spans spans);

/// The same, rows counted anew: spans that meet become one.
Spans joined(Spans spans);

/// How many rows of queries, and of keys.
struct Counts {
  std::int64_t queries, keys;
};

/// The rows that a rank, or a group of ranks, has.
struct Shard {
  Spans queries, keys;

  const Spans& rows(bool of_keys) const { return of_keys ? keys : queries; }
  Counts counts() const { return {rows_in(queries), rows_in(keys)}; }
};

/// The query at position i attends the keys of its sequence at positions [i + first, i + end),
/// masks aside, where each sequence has an offset of its own besides.
struct Order {
  bool matters;                       ///< positions mean something: causal, windows, ALiBi
  std::vector<std::int64_t> offsets;  ///< of positions, as in heed_attention_desc, by sequence
  std::int64_t first, end;            ///< except for the offset

  /// A query's position among the keys is its own plus this.
  std::int64_t offset(const Span& span) const { return offsets[span.sequence]; }
  bool attends_any(const Span& queries, const Span& keys) const;
  bool attends_all(const Span& queries, const Span& keys) const;
  /// How many pairs attend.
  double pairs(const Span& queries, const Span& keys) const;
};

/// Of all queries and all keys.
double pairs(const Order& order, const Spans& queries, const Spans& keys);

// ---- Placement ---------------------------------------------------------------------------------

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
/// positions from begins[n] to begins[n + 1] - 1, and together they have all. Rows are called
/// `name`.
void cut(const char* name, const std::vector<std::int64_t>& begins, std::vector<Spans>& all);

/// The rows of several shards together, in order of positions: spans that meet become one.
Spans together(const std::vector<Spans>& all, int first, int count);

/// The row of a shard that has this position.
std::int64_t row_at(const Spans& spans, std::int64_t position);

}  // namespace heed::mpi
