#include <algorithm>
#include <utility>

#include "engine/graph/edges.hpp"
#include "engine/parallel/ranges.hpp"

namespace heed {
namespace {

/// Digits have up to 2^11 values: the first two levels of cache hold as many places to write to.
constexpr int kMostBits = 11;

/// How many bits numbers below `count` have.
int bits_below(std::int64_t count) {
  int bits = 0;
  while ((std::int64_t{1} << bits) < count) ++bits;
  return bits;
}

/// Some of the bits of one of an edge's two ends.
template <class Index>
struct Digit {
  std::uint32_t Edge<Index>::*end;
  int shift;
  int bits;

  std::int64_t values() const { return std::int64_t{1} << bits; }
  std::int64_t of(const Edge<Index>& edge) const { return (edge.*end >> shift) & (values() - 1); }
};

/// Moves edges to where their digit belongs, keeping the order of equal ones.
template <class Index>
void sort_by_digit(const heed_context& context, const Digit<Index>& digit,
                   const Array<Edge<Index>>& from, Array<Edge<Index>>& to) {
  const Ranges ranges = Ranges::of(context.threads, static_cast<std::int64_t>(from.size()));
  const std::int64_t values = digit.values();
  Array<std::int64_t> next(context.allocator, ranges.ranges * values);  // [range][value]
  each_range(context.threads, ranges, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    std::int64_t* const counts = next.data() + r * values;
    std::fill_n(counts, values, 0);
    for (std::int64_t e = begin; e < end; ++e) ++counts[digit.of(from[e])];
  });
  std::int64_t before = 0;
  for (std::int64_t v = 0; v < values; ++v)
    for (std::int64_t r = 0; r < ranges.ranges; ++r)
      before += std::exchange(next[r * values + v], before);
  each_range(context.threads, ranges, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    std::int64_t* const places = next.data() + r * values;
    for (std::int64_t e = begin; e < end; ++e) to[places[digit.of(from[e])]++] = from[e];
  });
}

template <class Index>
bool sorted(const heed_context& context, const Array<Edge<Index>>& edges) {
  const auto pairs = static_cast<std::int64_t>(edges.size()) - 1;
  const auto key = [&](std::int64_t e) { return std::pair(edges[e].destination, edges[e].source); };
  return pairs <= 0 || first_where(context.threads, pairs,
                                   [&](std::int64_t e) { return key(e + 1) < key(e); }) == pairs;
}

}  // namespace

template <class Index>
void sort_edges(const heed_context& context, std::int64_t nodes, Array<Edge<Index>>& edges) {
  if (sorted(context, edges)) return;
  const int bits = std::max(bits_below(nodes), 1);
  const int digits = (bits + kMostBits - 1) / kMostBits;
  const int width = (bits + digits - 1) / digits;
  Array<Edge<Index>> other(context.allocator, static_cast<std::int64_t>(edges.size()));
  for (const auto end : {&Edge<Index>::source, &Edge<Index>::destination}) {
    for (int d = 0; d < digits; ++d) {
      sort_by_digit(context, Digit<Index>{end, d * width, width}, edges, other);
      std::swap(edges, other);
    }
  }
}

template void sort_edges(const heed_context&, std::int64_t, Array<Edge<std::uint32_t>>&);
template void sort_edges(const heed_context&, std::int64_t, Array<Edge<std::int64_t>>&);

}  // namespace heed
