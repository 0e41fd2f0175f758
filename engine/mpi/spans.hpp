// Rows by their positions in the whole sequence, and which of them attend which.
#pragma once

#include <cstdint>
#include <vector>

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

/// In order of positions, rows counted anew: spans that meet become one.
Spans joined(Spans spans);

/// The rows that a rank, or a group of ranks, has.
struct Shard {
  Spans queries, keys;
};

/// The query at position i attends the keys of its sequence at positions [i + first, i + end),
/// masks aside, where each sequence has an offset of its own besides.
struct Order {
  bool matters;                       ///< positions mean something: causal, windows, ALiBi
  std::vector<std::int64_t> offsets;  ///< of positions, as in heed_attention_desc, by sequence
  std::int64_t first, end;            ///< but for the offset

  /// What is added to a query's position where it stands among the keys.
  std::int64_t offset(const Span& span) const { return offsets[span.sequence]; }
  bool attends_any(const Span& queries, const Span& keys) const;
  bool attends_all(const Span& queries, const Span& keys) const;
  /// How many pairs attend.
  double pairs(const Span& queries, const Span& keys) const;
};

/// Of all queries and all keys.
double pairs(const Order& order, const Spans& queries, const Spans& keys);

}  // namespace heed::mpi
