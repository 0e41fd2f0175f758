#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "perf/graph/workload.hpp"
#include "tests/support/random.hpp"

namespace heed::perf {
namespace {

/// Edges in no order, some more than once.
struct EdgeList {
  std::vector<std::int32_t> sources;
  std::vector<std::int32_t> destinations;
};

using oracle::Random;

std::int32_t below(Random& random, std::int64_t count) {
  return static_cast<std::int32_t>(random.integer(0, count - 1));
}

/// What the nodes of an R-MAT graph are called in the end: without that, those with many edges
/// would lie side by side.
std::vector<std::int32_t> shuffled(std::int64_t nodes, Random& random) {
  std::vector<std::int32_t> names(static_cast<std::size_t>(nodes));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto other = static_cast<std::size_t>(below(random, static_cast<std::int64_t>(i) + 1));
    names[i] = names[other];
    names[other] = static_cast<std::int32_t>(i);
  }
  return names;
}

/// One edge: at every level one of the four quarters of the adjacency matrix, with the
/// probabilities of Graph500, 0.57, 0.19, 0.19 and 0.05, in steps of 2^-16.
/// Source: Chakrabarti, Zhan and Faloutsos 2004, "R-MAT: a recursive model for graph mining".
std::pair<std::int64_t, std::int64_t> rmat_edge(int levels, Random& random) {
  constexpr std::uint64_t a = 37356;
  constexpr std::uint64_t b = a + 12452;
  constexpr std::uint64_t c = b + 12452;
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::uint64_t bits = 0;
  for (int level = 0; level < levels; ++level, bits >>= 16) {
    if (level % 4 == 0) bits = random.bits();
    const std::uint64_t choice = bits & 0xffff;
    row = 2 * row + (choice >= b ? 1 : 0);
    column = 2 * column + ((choice >= a && choice < b) || choice >= c ? 1 : 0);
  }
  return {row, column};
}

void add_rmat_edges(const GraphWorkload& workload, Random& random, EdgeList& list) {
  int levels = 0;
  while ((std::int64_t{1} << levels) < workload.nodes) ++levels;
  const std::vector<std::int32_t> names = shuffled(workload.nodes, random);
  for (std::size_t e = 0; e < list.sources.size();) {
    const auto [source, destination] = rmat_edge(levels, random);
    if (std::max(source, destination) >= workload.nodes) continue;
    list.sources[e] = names[static_cast<std::size_t>(source)];
    list.destinations[e] = names[static_cast<std::size_t>(destination)];
    ++e;
  }
}

EdgeList make_list(const GraphWorkload& workload) {
  Random random(7);
  const auto count = static_cast<std::size_t>(workload.nodes * workload.degree);
  EdgeList list{std::vector<std::int32_t>(count), std::vector<std::int32_t>(count)};
  if (workload.kind == GraphKind::kRmat) {
    add_rmat_edges(workload, random, list);
    return list;
  }
  const std::int64_t hubs = std::min(kHubs, workload.nodes);
  for (std::size_t e = 0; e < count; ++e) {
    const bool to_hub = workload.kind == GraphKind::kHubs && e % 2 == 0;
    list.sources[e] = below(random, workload.nodes);
    list.destinations[e] =
        to_hub ? static_cast<std::int32_t>(below(random, hubs) * (workload.nodes / hubs))
               : below(random, workload.nodes);
  }
  return list;
}

}  // namespace

/// A counting sort by destination, then each node's sources sorted and each kept once.
Edges::Edges(const GraphWorkload& workload)
    : offsets(static_cast<std::size_t>(workload.nodes) + 1) {
  const EdgeList list = make_list(workload);
  sources.resize(list.sources.size());
  for (const std::int32_t n : list.destinations) ++offsets[static_cast<std::size_t>(n) + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
  for (std::size_t e = 0; e < list.sources.size(); ++e) {
    std::int64_t& to = next[static_cast<std::size_t>(list.destinations[e])];
    sources[static_cast<std::size_t>(to++)] = list.sources[e];
  }
  std::vector<std::int32_t> once;
  once.reserve(sources.size());
  for (std::size_t n = 0; n + 1 < offsets.size(); ++n) {
    const auto first = sources.begin() + offsets[n];
    const auto last = sources.begin() + offsets[n + 1];
    std::sort(first, last);
    offsets[n] = static_cast<std::int64_t>(once.size());
    std::unique_copy(first, last, std::back_inserter(once));
  }
  offsets.back() = static_cast<std::int64_t>(once.size());
  sources = std::move(once);
}

}  // namespace heed::perf
