// Graphs: heed.Graph.
#pragma once

#include "api/python/module/numbers.hpp"

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

/// Two arrays of indices of one type, as C has them: int32 if both are, else int64.
struct Indices {
  Vector<std::int32_t> narrow[2];
  Vector<std::int64_t> wide[2];
  heed_index_type type = HEED_INDEX_I64;

  Indices(const char* const (&names)[2], const nb::handle (&from)[2]) {
    if (is_narrow(names[0], from[0]) && is_narrow(names[1], from[1])) {
      type = HEED_INDEX_I32;
      for (int i = 0; i < 2; ++i) narrow[i] = read_vector<std::int32_t>(names[i], from[i]);
    } else {
      for (int i = 0; i < 2; ++i) wide[i] = read_vector<std::int64_t>(names[i], from[i]);
    }
  }

  const void* data(int i) const {
    if (count(i) == 0) return nullptr;
    return type == HEED_INDEX_I32 ? static_cast<const void*>(narrow[i].data) : wide[i].data;
  }
  std::int64_t count(int i) const {
    return type == HEED_INDEX_I32 ? narrow[i].count : wide[i].count;
  }

 private:
  static bool is_narrow(const char* name, nb::handle from);
};

std::uint32_t read_duplicates(nb::handle from);

}  // namespace heed::python
