// Attention over graphs by name, e.g. rmat_N1000000_deg8_H4_D16: a random graph and what is asked
// of attention over it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/heed.h"
#include "perf/workload.hpp"
#include "tests/oracle/graph.hpp"

namespace heed::perf {

enum class GraphKind {
  kErdosRenyi,  ///< er: both ends of an edge are random
  kRmat,        ///< rmat: a power law, by recursive choice among four quarters of the matrix
  kHubs,        ///< hubs: every other edge ends at one of kHubs nodes
};

constexpr std::int64_t kHubs = 8;

struct GraphWorkload {
  std::string name;
  std::string graph;  ///< what of the name decides the edges
  GraphKind kind;
  std::int64_t nodes;
  std::int64_t degree;             ///< mean number of edges into a node, before duplicates go
  heed_graph_attention_desc desc;  ///< contiguous, projected inputs
  bool bias;
  bool lse;
  bool weights;
};

/// The grammar, for help texts and error messages.
extern const char* const kGraphWorkloadGrammar;

/// What --graphs runs by default.
extern const std::vector<std::string> kGraphWorkloads;

/// And --ranks, of 10^6 nodes, of which something is promised.
extern const std::vector<std::string> kRankGraphWorkloads;

/// The name of one with so many times the nodes, and edges.
std::string times_as_many_nodes(const std::string& name, int times);

/// Whether a name is meant to be one of these: it begins with the kind of a graph.
bool names_graph(const std::string& name);

/// Throws std::invalid_argument that says what is wrong with the name.
GraphWorkload parse_graph_workload(const std::string& name);

/// Numbers in a row of the keys, of all heads, and of the values.
std::int64_t key_width(const GraphWorkload& workload);
std::int64_t value_width(const GraphWorkload& workload);

/// Bytes of keys and values that an edge reads.
double edge_bytes(const GraphWorkload& workload);

// ---- Random graphs, the same in every run ----

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
