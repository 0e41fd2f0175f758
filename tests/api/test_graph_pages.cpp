// Attention over graphs stays inside its tensors, its arrays and its workspace.
#if defined(__unix__)
#include "tests/api/fenced.hpp"
#include "tests/api/graphs.hpp"

using namespace api_test;

namespace {

constexpr std::int64_t kWidth = 6;      // of data
constexpr std::int64_t kEdgeWidth = 3;  // of edge data

struct Sizes {
  std::int64_t nodes, edges, heads, features, value_features;
};

std::size_t width_of(std::uint32_t dtype) {
  return dtype == HEED_DTYPE_F64 ? 8 : dtype == HEED_DTYPE_BF16 || dtype == HEED_DTYPE_F16 ? 2 : 4;
}

/// Attention every tensor of which lies between forbidden pages; all numbers are 0.
struct FencedGraph {
  FencedGraph(const Sizes& s, std::uint32_t inputs, std::uint32_t dtype, End end)
      : bytes_of(width_of(dtype)),
        real(dtype == HEED_DTYPE_F64 ? 8 : 4),
        query(size(s.nodes * s.heads * s.features), end),
        key(size(s.nodes * s.heads * s.features), end),
        value(size(s.nodes * s.heads * s.value_features), end),
        data(size(s.nodes * kWidth), end),
        w_query(size(matrices(s, inputs) * kWidth * s.heads * s.features), end),
        w_key(size(matrices(s, inputs) * kWidth * s.heads * s.features), end),
        w_value(size(matrices(s, inputs) * kWidth * s.heads * s.value_features), end),
        edge_data(size(s.edges * kEdgeWidth), end),
        edge_bias(size(s.edges * s.heads), end),
        w_edge_key(size(kEdgeWidth * s.heads * s.features), end),
        w_edge_value(size(kEdgeWidth * s.heads * s.value_features), end),
        out(size(s.nodes * s.heads * s.value_features), end),
        lse(static_cast<std::size_t>(s.nodes * s.heads) * real, end),
        weights(size(s.edges * s.heads), end) {
    desc.inputs = inputs;
    desc.heads = s.heads;
    desc.features = s.features;
    desc.value_features = s.value_features;
    desc.edge_width = kEdgeWidth;
    set_types(inputs == HEED_GRAPH_PROJECTED, dtype);
    if (inputs == HEED_GRAPH_PROJECTED) {
      args.query = query.get();
      args.key = key.get();
      args.value = value.get();
    } else {
      desc.width = kWidth;
      args.data = data.get();
      args.w_query = w_query.get();
      args.w_key = w_key.get();
      args.w_value = w_value.get();
    }
    args.edge_data = edge_data.get();
    args.edge_bias = edge_bias.get();
    args.w_edge_key = w_edge_key.get();
    args.w_edge_value = w_edge_value.get();
    args.out = out.get();
    args.lse = lse.get();
    args.weights = weights.get();
  }
  FencedGraph(const FencedGraph&) = delete;
  FencedGraph& operator=(const FencedGraph&) = delete;

  void set_types(bool projected, std::uint32_t dtype) {
    if (projected)
      desc.query.dtype = desc.key.dtype = desc.value.dtype = dtype;
    else
      desc.data.dtype = desc.w_query.dtype = desc.w_key.dtype = desc.w_value.dtype = dtype;
    desc.edge_data.dtype = desc.edge_bias.dtype = desc.out.dtype = desc.weights.dtype = dtype;
    desc.w_edge_key.dtype = desc.w_edge_value.dtype = dtype;
  }
  static std::int64_t matrices(const Sizes& s, std::uint32_t inputs) {
    return inputs == HEED_GRAPH_PER_NODE ? s.nodes : 1;
  }
  std::size_t size(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * bytes_of;
  }

  std::size_t bytes_of, real;
  Fenced query, key, value, data, w_query, w_key, w_value;
  Fenced edge_data, edge_bias, w_edge_key, w_edge_value, out, lse, weights;
  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
};

/// Indices between forbidden pages, as a list or as rows: edges end at all nodes in turn.
Graph fenced_graph(const Context& context, const Sizes& s, bool rows, End end) {
  const Fenced sources(static_cast<std::size_t>(s.edges) * 4, end);
  const Fenced destinations(static_cast<std::size_t>(s.edges) * 4, end);
  const Fenced offsets(static_cast<std::size_t>(s.nodes + 1) * 4, end);
  auto* const from = static_cast<std::int32_t*>(sources.get());
  auto* const to = static_cast<std::int32_t*>(destinations.get());
  auto* const first = static_cast<std::int32_t*>(offsets.get());
  for (std::int64_t e = 0; e < s.edges; ++e) {
    from[e] = static_cast<std::int32_t>((e * 7 + 1) % s.nodes);
    to[e] = static_cast<std::int32_t>(s.nodes - 1 - e % s.nodes);
  }
  for (std::int64_t n = 0; n <= s.nodes; ++n)
    first[n] = static_cast<std::int32_t>(s.edges * n / s.nodes);
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.nodes = s.nodes;
  desc.edges = s.edges;
  desc.sources = from;
  if (rows) desc.offsets = first;
  if (!rows) desc.destinations = to;
  desc.duplicates = HEED_DUPLICATES_KEEP;
  return make_graph(context, desc);
}

void check_pages(const std::string& isa, const Sizes& s, std::uint32_t inputs, std::uint32_t dtype,
                 End end) {
  const Context context = make_context(isa.c_str(), "serial", 1);
  const Graph graph = fenced_graph(context, s, dtype == HEED_DTYPE_F32, end);
  const FencedGraph fenced(s, inputs, dtype, end);
  const GraphPlan plan = make_plan(context, graph, fenced.desc);
  const Fenced workspace((describe(plan).workspace_bytes + 63) / 64 * 64, end);
  workspace.fill(0xff);
  const heed_status status =
      heed_graph_attention_plan_run(plan.get(), &fenced.args, workspace.get(), workspace.bytes());
  INFO(isa << ", " << s.nodes << " nodes, " << s.edges << " edges: " << heed_last_error());
  CHECK(status == HEED_STATUS_OK);
}

}  // namespace

TEST_CASE("attention over graphs touches no page beyond its tensors", "[pages][graph]") {
  for (const std::string& isa : usable_isas())
    for (const End end : {End::kFirst, End::kLast})
      for (const std::uint32_t inputs :
           {HEED_GRAPH_PROJECTED, HEED_GRAPH_SHARED, HEED_GRAPH_PER_NODE})
        for (const std::uint32_t dtype :
             {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16, HEED_DTYPE_F16})
          for (const Sizes& s : {Sizes{1, 1, 1, 1, 1}, Sizes{3, 5, 2, 3, 5}, Sizes{5, 70, 1, 8, 16},
                                 Sizes{7, 200, 3, 9, 7}, Sizes{4, 33, 8, 16, 8}})
            check_pages(isa, s, inputs, dtype, end);
}

TEST_CASE("a hub touches no page beyond its tensors", "[pages][graph]") {
  for (const std::string& isa : usable_isas())
    check_pages(isa, {1, 20000, 2, 5, 3}, HEED_GRAPH_PROJECTED, HEED_DTYPE_F32, End::kLast);
}
#endif
