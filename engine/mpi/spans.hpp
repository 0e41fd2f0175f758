// Rows by their positions in the whole sequence, and which of them attend which.
#pragma once

#include <cstdint>
#include <vector>

namespace heed::mpi {

/// Rows [row, row + count) of a shard, which stand at consecutive positions.
struct Span {
  std::int64_t position, count, row;

  std::int64_t end() const { return position + count; }
};
using Spans = std::vector<Span>;

std::int64_t rows_in(const Spans& spans);

/// The rows that a rank, or a group of ranks, has.
struct Shard {
  Spans queries, keys;
};

/// The query at position i attends the keys at positions [i + first, i + end), masks aside.
struct Order {
  bool matters;         ///< positions mean something: causal, windows, ALiBi
  std::int64_t offset;  ///< of positions, as in heed_attention_desc
  std::int64_t first, end;

  bool attends_any(const Span& queries, const Span& keys) const;
  bool attends_all(const Span& queries, const Span& keys) const;
  /// How many pairs attend.
  double pairs(const Span& queries, const Span& keys) const;
};

/// Of all queries and all keys.
double pairs(const Order& order, const Spans& queries, const Spans& keys);

}  // namespace heed::mpi
