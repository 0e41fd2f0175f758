// Random graphs, the same in every run.
#pragma once

#include <cstdint>
#include <vector>

#include "perf/graph/workload.hpp"

namespace heed::perf {

/// Edges by destination and, for each, by source; every edge once.
struct Edges {
  explicit Edges(const GraphWorkload& workload);

  std::vector<std::int64_t> offsets;  ///< [nodes + 1]
  std::vector<std::int32_t> sources;

  std::int64_t count() const { return offsets.back(); }
  std::int64_t nodes() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t degree(std::int64_t node) const {
    return offsets[static_cast<std::size_t>(node) + 1] - offsets[static_cast<std::size_t>(node)];
  }
};

}  // namespace heed::perf
