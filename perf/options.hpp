// What the command line asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heed::perf {

struct Options {
  std::vector<std::string> shapes;  ///< the standard workloads, or forms, unless any are given
  std::vector<std::string> block_shapes;   ///< those with --blocks, unless any are given
  std::vector<std::string> graph_shapes;   ///< those with --graphs, unless any are given
  std::vector<std::string> append_shapes;  ///< those with --decode, unless any are given
  std::vector<std::string> isas;  ///< empty: automatic for attention, all usable for the rest
  std::vector<unsigned> threads;  ///< 1 and all CPUs unless given
  std::string executor;           ///< empty: automatic
  std::uint32_t tile_q = 0;       ///< 0: automatic
  std::uint32_t tile_kv = 0;
  std::string product;     ///< of blocks; empty: automatic
  bool forms = false;      ///< form/... instead of all other rows
  bool blocks = false;     ///< block/... instead of all other rows
  bool graphs = false;     ///< graph/... instead of all other rows
  bool decode = false;     ///< decode/... instead of all other rows
  bool backward = false;   ///< backward/... instead of all other rows
  std::vector<int> ranks;  ///< of MPI: strong/... and weak/... instead of all other rows
  std::vector<std::string> weak_shapes, weak_graph_shapes;  ///< those of one rank
  bool no_stages = false;
  bool details = false;  ///< every row as it finishes, before the table
  bool help = false;
  std::vector<std::string> benchmark;  ///< the arguments left over: Google Benchmark's
};

/// Prints the problem, or the help text, and exits where the arguments ask for nothing else.
/// After --help the caller lets Google Benchmark print its own flags and exits.
Options parse_options(int argc, char** argv);

}  // namespace heed::perf
