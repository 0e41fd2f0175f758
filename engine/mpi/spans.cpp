#include "engine/mpi/spans.hpp"

#include <algorithm>

namespace heed::mpi {
namespace {

/// Counts the pairs with j < i + d among rows i < n and keys j < m.
double pairs_below(std::int64_t n, std::int64_t m, std::int64_t d) {
  const std::int64_t none = std::clamp<std::int64_t>(-d, 0, n);      // rows before this: no key
  const std::int64_t whole = std::clamp<std::int64_t>(m - d, 0, n);  // rows from this on: all keys
  const double between = static_cast<double>(whole - none);
  return between * static_cast<double>(d) + between * static_cast<double>(none + whole - 1) / 2 +
         static_cast<double>(n - whole) * static_cast<double>(m);
}

/// Joins rows next to each other at positions next to each other to a span.
Spans spans_of(const char* name, std::int64_t length, const std::int64_t* positions) {
  Spans spans;
  for (std::int64_t row = 0; row < length; ++row) {
    const std::int64_t position = positions[row];
    if (!spans.empty() && spans.back().end() == position) {
      ++spans.back().count;
    } else if (spans.size() == kMostSpans) {
      fail(HEED_STATUS_UNSUPPORTED,
           "desc.%s_positions has a gap or a jump before row %lld; a shard may have %zu spans of "
           "consecutive positions, and this would be one more",
           name, lld(row), kMostSpans);
    } else {
      spans.push_back({position, 1, row});
    }
  }
  return spans;
}

/// Lays the rows of all ranks, so many of each, out in the order of positions.
std::vector<Spans> spans_in_order(const std::vector<std::int64_t>& lengths, bool zigzag) {
  std::vector<Spans> all(lengths.size());
  std::int64_t position = 0;
  const auto append = [&](std::size_t rank, std::int64_t count, std::int64_t row) {
    Spans& spans = all[rank];
    if (!spans.empty() && spans.back().end() == position)  // the last rank's chunks meet
      spans.back().count += count;
    else if (count > 0)
      spans.push_back({position, count, row});
    position += count;
  };
  const auto half = [&](std::size_t rank) { return lengths[rank] - lengths[rank] / 2; };
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    append(rank, zigzag ? half(rank) : lengths[rank], 0);
  for (std::size_t rank = all.size(); zigzag && rank-- > 0;)
    append(rank, lengths[rank] / 2, half(rank));
  return all;
}

/// Throws unless every position from 0 on is there, once.
void check_cover(const std::vector<Spans>& all, const char* name) {
  struct Owned {
    Span span;
    std::size_t rank;
  };
  std::vector<Owned> sorted;
  std::int64_t total = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    for (const Span& span : all[rank]) sorted.push_back({span, rank}), total += span.count;
  std::sort(sorted.begin(), sorted.end(),
            [](const Owned& a, const Owned& b) { return a.span.position < b.span.position; });
  std::int64_t next = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const Span& span = sorted[i].span;
    if (span.position < next)
      refuse("desc.%s_positions of rank %zu has position %lld, which %s", name, sorted[i].rank,
             lld(span.position),
             i == 0 ? "is below 0" : "is also a position of this or another rank");
    if (span.position > next)
      refuse(
          "desc.%s_positions of rank %zu goes on at position %lld, but no rank has position %lld; "
          "together they must be 0 to %lld, each once",
          name, sorted[i].rank, lld(span.position), lld(next), lld(total - 1));
    next = span.end();
  }
}

}  // namespace

std::int64_t rows_in(const Spans& spans) {
  std::int64_t rows = 0;
  for (const Span& span : spans) rows += span.count;
  return rows;
}

Spans sorted(Spans spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.position < b.position; });
  return spans;
}

Spans joined(Spans spans) {
  Spans all;
  std::int64_t rows = 0;
  for (const Span& span : sorted(std::move(spans))) {
    if (!all.empty() && all.back().meets(span))
      all.back().count += span.count;
    else
      all.push_back({span.position, span.count, rows, span.sequence});
    rows += span.count;
  }
  return all;
}

bool Order::attends_any(const Span& queries, const Span& keys) const {
  const std::int64_t at = offset(queries);
  return queries.sequence == keys.sequence && queries.count > 0 && keys.count > 0 &&
         queries.position + at + first < keys.end() && queries.end() - 1 + at + end > keys.position;
}

bool Order::attends_all(const Span& queries, const Span& keys) const {
  const std::int64_t at = offset(queries);
  return queries.end() - 1 + at + first <= keys.position &&
         queries.position + at + end >= keys.end();
}

double Order::pairs(const Span& queries, const Span& keys) const {
  const std::int64_t between = queries.position + offset(queries) - keys.position;
  return pairs_below(queries.count, keys.count, between + end) -
         pairs_below(queries.count, keys.count, between + first);
}

double pairs(const Order& order, const Spans& queries, const Spans& keys) {
  double sum = 0;
  for (const Span& q : queries)
    for (const Span& k : keys)
      if (order.attends_any(q, k)) sum += order.pairs(q, k);
  return sum;
}

void place(std::uint32_t placement, std::int64_t length, int ranks, int rank, heed_mpi_rows* rows) {
  const std::int64_t chunks = placement == HEED_MPI_ZIGZAG ? 2 * std::int64_t{ranks} : ranks;
  const auto chunk = [&](std::int64_t i) {
    const std::int64_t longer = length % chunks;  // the first so many have a row more
    const std::int64_t begin = length / chunks * i + std::min(i, longer);
    return heed_mpi_rows{begin, length / chunks + (i < longer ? 1 : 0)};
  };
  rows[0] = chunk(rank);
  rows[1] = placement == HEED_MPI_ZIGZAG ? chunk(chunks - 1 - rank) : heed_mpi_rows{0, 0};
}

std::vector<Spans> gather_spans(const Communicator& comm, std::uint32_t placement, const char* name,
                                std::int64_t length, const std::int64_t* positions) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  if (placement == HEED_MPI_POSITIONS) {
    std::vector<Spans> all =
        comm.agreed([&] { return std::vector<Spans>(ranks, spans_of(name, length, positions)); });
    all = exchange_lists(comm, all);
    comm.agreed([&] { check_cover(all, name); });
    return all;
  }
  auto lengths = comm.agreed([&] { return std::vector<std::int64_t>(ranks); });
  HEED_CALL(MPI_Allgather, &length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, comm.get());
  return comm.agreed([&] { return spans_in_order(lengths, placement == HEED_MPI_ZIGZAG); });
}

Spans together(const std::vector<Spans>& all, int first, int count) {
  if (count == 1) return all[static_cast<std::size_t>(first)];
  Spans both;
  for (int i = first; i < first + count; ++i) {
    const Spans& spans = all[static_cast<std::size_t>(i)];
    both.insert(both.end(), spans.begin(), spans.end());
  }
  return joined(std::move(both));
}

void cut(const char* name, const std::vector<std::int64_t>& begins, std::vector<Spans>& all) {
  for (Spans& spans : all) {
    Spans pieces;
    for (Span rest : spans) {
      const auto after = std::upper_bound(begins.begin(), begins.end() - 1, rest.position);
      for (auto n = static_cast<std::size_t>(after - begins.begin()) - 1; rest.count > 0; ++n) {
        const std::int64_t count = std::min(rest.end(), begins[n + 1]) - rest.position;
        if (count == 0) continue;  // an empty sequence
        pieces.push_back({rest.position, count, rest.row, n});
        rest = {rest.position + count, rest.count - count, rest.row + count};
      }
    }
    if (pieces.size() > kMostSpans)
      fail(HEED_STATUS_UNSUPPORTED,
           "a shard has %zu spans of %s rows that are consecutive and in one sequence; it may have "
           "%zu",
           pieces.size(), name, kMostSpans);
    spans = std::move(pieces);
  }
}

std::int64_t row_at(const Spans& spans, std::int64_t position) {
  const auto after =
      std::upper_bound(spans.begin(), spans.end(), position,
                       [](std::int64_t at, const Span& span) { return at < span.position; });
  return std::prev(after)->row + position - std::prev(after)->position;
}

}  // namespace heed::mpi
