// Graphs: heed.Graph.
#pragma once

#include "api/python/module/errors.hpp"

namespace heed::python {

/// Edges, checked and sorted; immutable.
class Graph {
 public:
  Graph(nb::handle context, const heed_graph_desc& desc);
  ~Graph() { heed_graph_destroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const heed_graph* get() const { return graph_; }
  const heed_graph_info& info() const { return info_; }

 private:
  heed_graph* graph_ = nullptr;
  heed_graph_info info_ = HEED_GRAPH_INFO_INIT;
};

}  // namespace heed::python
