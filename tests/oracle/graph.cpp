#include "tests/oracle/graph.hpp"

#include <algorithm>
#include <utility>

#include "tests/oracle/graph_steps.hpp"

namespace heed_test {

void EdgeList::add(Index source, Index destination) {
  sources.push_back(source);
  destinations.push_back(destination);
}

std::vector<std::vector<Index>> incoming(const EdgeList& edges) {
  std::vector<std::vector<Index>> into(static_cast<std::size_t>(edges.nodes));
  for (Index e = 0; e < edges.size(); ++e)
    into[static_cast<std::size_t>(edges.destinations[static_cast<std::size_t>(e)])].push_back(e);
  const auto source = [&](Index e) { return edges.sources[static_cast<std::size_t>(e)]; };
  for (std::vector<Index>& all : into) {
    std::sort(all.begin(), all.end(), [&](Index a, Index b) {
      return std::make_pair(source(a), a) < std::make_pair(source(b), b);
    });
    if (edges.unique)
      all.erase(std::unique(all.begin(), all.end(),
                            [&](Index a, Index b) { return source(a) == source(b); }),
                all.end());
  }
  return into;
}

Expected expect(const GraphGiven& given) {
  return is_float64(given.desc) ? GraphOracle<double>(given).run()
                                : GraphOracle<float>(given).run();
}

}  // namespace heed_test
