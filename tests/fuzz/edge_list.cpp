// Edge lists as the example neighbours reads them: edges_read, edges_find_repeated, and the graph
// that heed makes of what was read.
extern "C" {
#include "api/examples/graph/edges.h"
}

#include <cmath>
#include <set>

#include "tests/fuzz/check.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/support/graphs.hpp"

using namespace heed_test;

namespace {

std::string draw_node(Draw& draw, bool numbers) {
  if (numbers) return std::to_string(draw.one_in(8) ? draw.hostile() : draw.integer(-2, 9));
  return draw.pick<const char*>({"a", "b", "Mr. Hi", "x y", "\xc3\xa9t\xc3\xa9"});
}

/// Lines that make a valid file.
std::string draw_valid(Draw& draw) {
  const bool numbers = draw.one_in(2);
  const std::string separator = numbers ? draw.pick<const char*>({" ", "\t", ",", "  "})
                                        : draw.pick<const char*>({"\t", ","});
  std::string text;
  for (std::int64_t e = draw.integer(1, 12); e > 0; --e) {
    if (draw.one_in(8)) text += draw.pick<const char*>({"# a line\n", "\n", "% another\n", " \n"});
    text += draw_node(draw, numbers) + separator + draw_node(draw, numbers);
    if (draw.one_in(4)) text += separator + draw.pick<const char*>({"1", "2.5", "1e-300", "3e5"});
    text += draw.one_in(8) ? "\r\n" : "\n";
  }
  return text;
}

void check_edges(const edge_list& edges) {
  demand(edges.nodes >= 0 && edges.count >= 0, "a list of less than nothing");
  std::set<std::string> names;
  for (std::int32_t n = 0; n < edges.nodes; ++n)
    demand(names.insert(edges.names[n]).second, "two nodes of one name");
  for (std::int64_t e = 0; e < edges.count; ++e) {
    const std::int32_t ends[] = {edges.sources[e], edges.destinations[e]};
    for (const std::int32_t node : ends)
      demand(node >= 0 && node < edges.nodes, "an edge of no node");
    demand(edges.weights[e] > 0 && std::isfinite(edges.weights[e]), "a weight that is none");
  }
}

/// heed takes what was read, and removes what was found to be repeated.
void check_graph(const edge_list& edges) {
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.nodes = edges.nodes;
  desc.edges = edges.count;
  desc.sources = edges.sources;
  desc.destinations = edges.destinations;
  heed_graph* made = nullptr;
  require_ok(heed_graph_create(fuzz_context().get(), &desc, &made));
  const Graph graph(made);
  const auto count = static_cast<std::size_t>(edges.count);
  const std::unique_ptr<bool[]> repeated(new bool[count]);
  demand(edges_find_repeated(&edges, repeated.get()), "no memory to find what is repeated");
  const auto kept = std::count(repeated.get(), repeated.get() + count, false);
  demand(describe(graph).edges == kept, "other edges are repeated than heed removes");
}

void read(Draw& draw, MemoryFile& file, std::string text, bool damaged) {
  const bool unweighted = draw.one_in(2);
  if (damaged) damage(draw, text, text.size(), {"\t", ",", " ", "nan", "inf", "-1", "1e999", "0"});
  file.write(text);
  edge_list edges = {};
  bool read = false;
  std::string printed;
  {
    PrintedErrors errors;
    read = edges_read("fuzz", file.path(), unweighted, &edges);
    printed = errors.text();
  }
  if (read) {
    demand(printed.empty(), "something is wrong and yet it is not");
    check_edges(edges);
    check_graph(edges);
    demand(edges.count > 0, "a file without edges is read");
  } else {
    if (!damaged) finding("what is valid is refused: " + printed);
    demand(!printed.empty() && printed.back() == '\n', "no line says what is wrong");
    printed.pop_back();
    check_message(printed, (std::string("fuzz: ") + file.path() + ": ").c_str());
  }
  edges_release(&edges);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile file;
  Draw first(data, size);
  const std::string valid = draw_valid(first);
  each_variant(first, [&](Draw& draw, bool damaged) { read(draw, file, valid, damaged); });
  return 0;
}
