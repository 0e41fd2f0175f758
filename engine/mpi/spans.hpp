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

/// Sorts spans by positions.
Spans sorted(Spans spans);

/// Sorts spans, counts rows anew, and lets spans that meet become one.
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
  std::vector<std::int64_t> offsets;  ///< by sequence, as in heed_attention_desc
  std::int64_t first, end;            ///< before the offset is added

  /// A query's position among the keys is its own plus this.
  std::int64_t offset(const Span& span) const { return offsets[span.sequence]; }
  bool attends_any(const Span& queries, const Span& keys) const;
  bool attends_all(const Span& queries, const Span& keys) const;
  /// How many pairs attend.
  double pairs(const Span& queries, const Span& keys) const;
};

/// How many pairs of all queries and all keys attend.
double pairs(const Order& order, const Spans& queries, const Spans& keys);

// ---- Placement ---------------------------------------------------------------------------------

/// A shard may have so many spans of queries, and as many of keys.
inline constexpr std::size_t kMostSpans = 1024;

/// Tells the rows of a sequence that a rank has where lengths differ as little as they can: rows[0]
/// and rows[1].
void place(std::uint32_t placement, std::int64_t length, int ranks, int rank, heed_mpi_rows* rows);

/// Gathers the spans of all ranks, by rank: of queries or keys, which messages call `name`. This
/// rank has `length` rows, with HEED_MPI_POSITIONS at these positions. Collective. Throws the same
/// Error on all ranks unless together they have every position once.
std::vector<Spans> gather_spans(const Communicator& comm, std::uint32_t placement, const char* name,
                                std::int64_t length, const std::int64_t* positions);

/// Cuts the spans of all ranks where sequences of a packed batch begin: sequence n has the
/// positions from begins[n] to begins[n + 1] - 1, and together they have all. Rows are called
/// `name`.
void cut(const char* name, const std::vector<std::int64_t>& begins, std::vector<Spans>& all);

/// Joins the rows of several shards, in order of positions: spans that meet become one.
Spans together(const std::vector<Spans>& all, int first, int count);

/// The row of a shard that has this position.
std::int64_t row_at(const Spans& spans, std::int64_t position);

}  // namespace heed::mpi
