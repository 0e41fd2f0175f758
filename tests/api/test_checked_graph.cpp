// Checked mode over graphs: their edges, and attention over them.
#include <limits>

#include "tests/api/checked.hpp"
#include "tests/api/graphs.hpp"

using namespace api_test;

namespace {

/// A ring of so many nodes, each with an edge to the next, given as int64.
struct Ring {
  explicit Ring(std::int64_t nodes) {
    desc.nodes = nodes;
    desc.edges = nodes;
    for (std::int64_t n = 0; n < nodes; ++n) {
      sources.push_back(n + 1 < nodes ? n + 1 : 1);
      destinations.push_back(n);
    }
    desc.sources = sources.data();
    desc.destinations = destinations.data();
  }
  Ring(const Ring&) = delete;  // its descriptor points into it
  Ring& operator=(const Ring&) = delete;

  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  std::vector<std::int64_t> sources, destinations;
};

Call ring(std::int64_t nodes, std::uint32_t index_type) {
  return [nodes, index_type](const Context& context) {
    Ring r(nodes);
    r.desc.index_type = index_type;
    heed_graph* graph = nullptr;
    const heed_status status = heed_graph_create(context.get(), &r.desc, &graph);
    heed_graph_destroy(graph);
    return status;
  };
}

Call create(const std::function<void(SmallGraph&)>& change) {
  return [change](const Context& context) {
    SmallGraph small;
    change(small);
    heed_graph* graph = nullptr;
    const heed_status status = heed_graph_create(context.get(), &small.desc, &graph);
    heed_graph_destroy(graph);
    return status;
  };
}

Call form(const GraphChange& change) {
  return [change](const Context& context) {
    GraphForm f;
    change(f);
    return attend(context, make_graph(context, f.graph.desc), f);
  };
}

void set(Bytes& at, std::size_t index, float x) {
  std::memcpy(at.at(index * sizeof x), &x, sizeof x);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

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
      fine("int32", create([](SmallGraph&) {})),
      told("offsets that look like it", create([](SmallGraph& g) {
             static const std::int64_t offsets[] = {0, 6};  // of a graph of 2 nodes as int32
             g.by_rows();
             g.desc.nodes = 2;
             g.desc.offsets = offsets;
             for (std::int32_t& source : g.sources) source %= 2;
             static const std::int32_t as_int32[] = {0, 0, 6};
             g.desc.offsets = as_int32;
           }),
           {"every second number of desc.offsets is 0"}),
      told("edges forgotten", create([](SmallGraph& g) { g.desc.edges = 0; }),
           {"desc.edges is 0", "desc.sources is given"}),
  });
}

TEST_CASE("checked: tensors of graphs that overlap or look odd", "[check][graph][files]") {
  check_traps({
      fine("nothing odd", form([](GraphForm&) {})),
      refused("out is key", form([](GraphForm& f) { f.args.out = f.key.at(); }),
              {"args.out, 0x", "overlaps args.key, 0x"}),
      fine("out is data, as it may be", form([](GraphForm& f) { f.args.out = f.data.at(); })),
      refused("out is data, a row further", form([](GraphForm& f) { f.args.out = f.data.at(40); }),
              {"args.out", "overlaps args.data"}),
      refused("weights in lse", form([](GraphForm& f) { f.args.weights = f.lse.at(8); }),
              {"args.lse", "overlaps args.weights"}),
      refused("out over matrices of nodes", form([](GraphForm& f) {
                f.per_node();
                f.args.out = f.w_value.at(4 * 10 * 10 * 4 - 4);
              }),
              {"args.out", "overlaps args.w_value"}),
      told("NaN in edge data", form([](GraphForm& f) { set(f.edge_data, 2 * 4 + 1, kNan); }),
           {"args.edge_data holds 1 NaN", "edge 4, feature 1"}),
      told("NaN in data that out replaces", form([](GraphForm& f) {
             set(f.data, 13, kNan);
             f.args.out = f.data.at();
           }),
           {"args.data holds 1 NaN", "node 1, feature 3", "args.out holds"}),
      told("infinities of an edge bias", form([](GraphForm& f) {
             set(f.edge_bias, 0, -kInf);
             set(f.edge_bias, 5, kInf);
           }),
           {"args.edge_bias holds 0 NaN and 1 inf", "head 1, edge 2"}),
      told("NaN in a shared matrix", form([](GraphForm& f) {
             f.share();
             set(f.w_key, 6 * 2 + 5, kNan);
             set(f.b_value, 3, kNan);
           }),
           {"args.w_key holds 1 NaN", "in 2, out 5", "args.b_value holds 1 NaN", "element 3"}),
  });
}
