#include "engine/mpi/spans.hpp"

#include <algorithm>

namespace heed::mpi {
namespace {

/// Of rows i < n and keys j < m, the pairs with j < i + d.
double pairs_below(std::int64_t n, std::int64_t m, std::int64_t d) {
  const std::int64_t none = std::clamp<std::int64_t>(-d, 0, n);      // rows before this: no key
  const std::int64_t whole = std::clamp<std::int64_t>(m - d, 0, n);  // rows from this on: all keys
  const double between = static_cast<double>(whole - none);
  return between * static_cast<double>(d) + between * static_cast<double>(none + whole - 1) / 2 +
         static_cast<double>(n - whole) * static_cast<double>(m);
}

}  // namespace

std::int64_t rows_in(const Spans& spans) {
  std::int64_t rows = 0;
  for (const Span& span : spans) rows += span.count;
  return rows;
}

Spans joined(Spans spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.position < b.position; });
  Spans all;
  std::int64_t rows = 0;
  for (const Span& span : spans) {
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

}  // namespace heed::mpi
