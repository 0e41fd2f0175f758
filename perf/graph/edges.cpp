#include "perf/graph/edges.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "perf/buffer.hpp"

namespace heed::perf {
namespace {

/// Edges in no order, some more than once.
struct EdgeList {
  std::vector<std::int32_t> sources;
  std::vector<std::int32_t> destinations;
};

std::int32_t below(Random& random, std::int64_t count) {
  return static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(count)));
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

/// Sorts the sources of each node and keeps each once.
void remove_duplicates(Edges& edges) {
  std::vector<std::int32_t>& sources = edges.sources;
  std::size_t kept = 0;
  for (std::size_t n = 0; n + 1 < edges.offsets.size(); ++n) {
    const std::int64_t first = edges.offsets[n];
    const std::int64_t last = edges.offsets[n + 1];
    std::sort(sources.begin() + first, sources.begin() + last);
    edges.offsets[n] = static_cast<std::int64_t>(kept);
    std::int32_t previous = -1;
    for (auto e = static_cast<std::size_t>(first); e < static_cast<std::size_t>(last); ++e) {
      if (sources[e] == previous) continue;
      previous = sources[e];
      sources[kept++] = previous;
    }
  }
  edges.offsets.back() = static_cast<std::int64_t>(kept);
  sources.resize(kept);
}

/// A counting sort by destination.
Edges sorted(const EdgeList& list, std::int64_t nodes) {
  Edges edges;
  edges.offsets.assign(static_cast<std::size_t>(nodes) + 1, 0);
  edges.sources.resize(list.sources.size());
  for (const std::int32_t n : list.destinations) ++edges.offsets[static_cast<std::size_t>(n) + 1];
  for (std::size_t n = 1; n < edges.offsets.size(); ++n) edges.offsets[n] += edges.offsets[n - 1];
  std::vector<std::int64_t> next(edges.offsets.begin(), edges.offsets.end() - 1);
  for (std::size_t e = 0; e < list.sources.size(); ++e) {
    std::int64_t& to = next[static_cast<std::size_t>(list.destinations[e])];
    edges.sources[static_cast<std::size_t>(to++)] = list.sources[e];
  }
  remove_duplicates(edges);
  return edges;
}

}  // namespace

std::shared_ptr<const Edges> edges_of(const GraphWorkload& workload) {
  static std::pair<std::string, std::shared_ptr<const Edges>> latest;
  if (latest.first != workload.graph) {
    latest = {};  // frees the older before the new one is made
    latest = {workload.graph, std::make_shared<Edges>(sorted(make_list(workload), workload.nodes))};
  }
  return latest.second;
}

}  // namespace heed::perf
