// Checked mode over graphs: their edges, and attention over them.
#include "tests/api/checked.hpp"

using namespace api_test;

namespace {

/// A ring of so many nodes, each with an edge to the next, given as int64.
std::function<void(SmallGraph&)> ring(std::int64_t nodes, std::uint32_t index_type) {
  std::vector<std::int64_t> sources, destinations;
  for (std::int64_t n = 0; n < nodes; ++n) {
    sources.push_back(n + 1 < nodes ? n + 1 : 1);
    destinations.push_back(n);
  }
  return [=](SmallGraph& g) {
    g.desc.index_type = index_type;
    g.desc.nodes = g.desc.edges = nodes;
    g.desc.sources = sources.data();
    g.desc.destinations = destinations.data();
  };
}

}  // namespace

TEST_CASE("checked: edges that look like int64", "[check][graph][files]") {
  check_traps({
      refused(
          "beyond doubt", ring(32, HEED_INDEX_DEFAULT),
          {"desc.index_type is 0", "16 of 32, is 0", "HEED_INDEX_I64 (2)", "HEED_INDEX_I32 (1)"}),
      told("said to be int32", ring(32, HEED_INDEX_I32),
           {"every second of desc.sources and desc.destinations is 0", "HEED_INDEX_I64 (2)"}),
      told("too few to be certain", ring(30, HEED_INDEX_DEFAULT),
           {"every second of desc.sources and desc.destinations is 0"}),
      fine("said to be int64", ring(32, HEED_INDEX_I64)),
      fine("int32", [](SmallGraph&) {}),
      told("offsets that look like it",
           [](SmallGraph& g) {
             static const std::int64_t offsets[] = {0, 6};  // of a graph of 2 nodes as int32
             g.by_rows();
             g.desc.nodes = 2;
             g.desc.offsets = offsets;
             for (std::int32_t& source : g.sources) source %= 2;
             static const std::int32_t as_int32[] = {0, 0, 6};
             g.desc.offsets = as_int32;
           },
           {"every second number of desc.offsets is 0"}),
  });
}

TEST_CASE("checked: tensors of graphs that overlap or look odd", "[check][graph][files]") {
  check_traps({
      fine("nothing odd", [](GraphForm&) {}),
      fine("out is data, as it may be", [](GraphForm& f) { f.args.out = f.data.at(); }),
      refused("out is data, a row further", [](GraphForm& f) { f.args.out = f.data.at(40); },
              {"args.out", "overlaps args.data"}),
      told("NaN in edge data", [](GraphForm& f) { f.edge_data.set(2 * 4 + 1, kNan); },
           {"args.edge_data holds 1 NaN", "edge 4, feature 1"}),
      told("NaN in data that out replaces",
           [](GraphForm& f) {
             f.data.set(13, kNan);
             f.args.out = f.data.at();
           },
           {"args.data holds 1 NaN", "node 1, feature 3", "args.out holds"}),
      told("infinities of an edge bias",
           [](GraphForm& f) {
             f.edge_bias.set(0, -kInf);
             f.edge_bias.set(5, kInf);
           },
           {"args.edge_bias holds 0 NaN and 1 inf", "head 1, edge 2"}),
      told("NaN in a shared matrix",
           [](GraphForm& f) {
             f.share();
             f.w_key.set(6 * 2 + 5, kNan);
             f.b_value.set(3, kNan);
           },
           {"args.w_key holds 1 NaN", "in 2, out 5", "args.b_value holds 1 NaN", "element 3"}),
  });
}
