// A small graph and attention over it for the tests of the C API, with one of everything.
#pragma once

#include <functional>
#include <vector>

#include "tests/api/blocks.hpp"
#include "tests/api/bytes.hpp"
#include "tests/api/support.hpp"
#include "tests/support/graphs.hpp"

namespace api_test {

inline Graph make_graph(const Context& context, const heed_graph_desc& desc) {
  heed_graph* graph = nullptr;
  heed_test::require_ok(heed_graph_create(context.get(), &desc, &graph));
  return Graph(graph);
}

/// Four nodes, six edges, one of them twice, none into node 2; as a list and as rows.
struct SmallGraph {
  SmallGraph() {
    desc.nodes = 4;
    desc.edges = 6;
    desc.sources = sources;
    desc.destinations = destinations;
  }
  SmallGraph(const SmallGraph&) = delete;  // its descriptor points into it
  SmallGraph& operator=(const SmallGraph&) = delete;

  void by_rows() {
    desc.destinations = nullptr;
    desc.offsets = offsets;
  }
  /// The same numbers as int64; rows or list as they are now.
  void widen() {
    desc.index_type = HEED_INDEX_I64;
    for (int i = 0; i < 6; ++i) wide_sources[i] = sources[i];
    for (int i = 0; i < 6; ++i) wide_destinations[i] = destinations[i];
    for (int i = 0; i < 5; ++i) wide_offsets[i] = offsets[i];
    desc.sources = wide_sources;
    if (desc.destinations != nullptr) desc.destinations = wide_destinations;
    if (desc.offsets != nullptr) desc.offsets = wide_offsets;
  }

  bool outputs_untouched() const { return info.bytes == 0; }

  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  heed_graph_info info = HEED_GRAPH_INFO_INIT;  ///< of what was made
  std::int32_t sources[6] = {3, 1, 1, 2, 3, 0};
  std::int32_t destinations[6] = {0, 0, 0, 1, 1, 3};
  std::int32_t offsets[5] = {0, 3, 5, 5, 6};
  std::int64_t wide_sources[6] = {};
  std::int64_t wide_destinations[6] = {};
  std::int64_t wide_offsets[5] = {};
};

inline heed_status one_call(const Context& context, SmallGraph& form) {
  Object made;
  const heed_status status = make_object(made, heed_graph_destroy, [&](heed_graph** graph) {
    return heed_graph_create(context.get(), &form.desc, graph);
  });
  auto* const graph = static_cast<heed_graph*>(made.get());
  if (graph != nullptr) CHECK(heed_graph_describe(graph, &form.info) == HEED_STATUS_OK);
  if (graph != nullptr) CHECK(form.info.nodes == form.desc.nodes);
  return status;
}

template <class Check>
void hand_in(SmallGraph& form, bool, const Check& check) {
  for (const char* const executor : {"serial", heed_executor_name(heed_executor_count() - 1)}) {
    const Context context = make_context(nullptr, executor, executor[0] == 's' ? 1 : 2);
    forget_last_error();
    check(one_call(context, form));
  }
}

inline Fields fields_of(SmallGraph& form) {
  Fields fields;
  heed_graph_desc& d = form.desc;
  return fields.in("desc.")("index_type", d.index_type)("nodes", d.nodes)("edges", d.edges)(
      "sources", d.sources)("destinations", d.destinations)("offsets", d.offsets)(
      "duplicates", d.duplicates)("reverse", d.reverse)("source_nodes", d.source_nodes);
}

/// Attention over it: 2 heads, 3 features, values of 5, data of 10, edge data of 2. Queries, keys
/// and values are given, unless one of the functions says otherwise.
struct GraphForm {
  GraphForm() {
    desc.heads = 2;
    desc.features = 3;
    desc.value_features = 5;
    desc.residual = 1;
    desc.width = 10;
    desc.edge_width = 2;
    args.query = query.at();
    args.key = key.at();
    args.value = value.at();
    args.data = data.at();
    args.edge_data = edge_data.at();
    args.w_edge_key = w_edge_key.at();
    args.w_edge_value = w_edge_value.at();
    args.edge_bias = edge_bias.at();
    args.out = out.at();
    args.lse = lse.at();
    args.weights = weights.at();
  }
  GraphForm(const GraphForm&) = delete;  // its arguments point into it
  GraphForm& operator=(const GraphForm&) = delete;

  void share() {
    desc.inputs = HEED_GRAPH_SHARED;
    args.query = args.key = args.value = nullptr;
    args.w_query = w_query.at();
    args.w_key = w_key.at();
    args.w_value = w_value.at();
    args.b_query = b_query.at();
    args.b_key = b_key.at();
    args.b_value = b_value.at();
  }
  void per_node() {
    share();
    desc.inputs = HEED_GRAPH_PER_NODE;
    args.b_query = args.b_key = args.b_value = nullptr;
  }
  /// Without data.
  void no_residual() {
    desc.residual = 0;
    desc.width = 0;
    args.data = nullptr;
  }
  void no_edge_data() {
    desc.edge_width = 0;
    args.edge_data = args.w_edge_key = args.w_edge_value = nullptr;
  }
  void combine(heed_combine how) {
    desc.combine = how;
    desc.width = 5;
    if (how == HEED_COMBINE_WEIGHTED) args.head_weights = head_weights.at();
  }
  void be_hard() {
    desc.hard = 1;
    args.lse = nullptr;
  }
  void all_float64() {
    const bool projected = desc.inputs == HEED_GRAPH_PROJECTED;
    if (projected) desc.query.dtype = desc.key.dtype = desc.value.dtype = HEED_DTYPE_F64;
    if (desc.width > 0) desc.data.dtype = HEED_DTYPE_F64;
    if (desc.edge_width > 0) desc.edge_data.dtype = HEED_DTYPE_F64;
    desc.out.dtype = HEED_DTYPE_F64;
  }

  bool outputs_untouched() const {
    return out.all_are(kPattern) && lse.all_are(kPattern) && weights.all_are(kPattern);
  }

  heed_graph_attention_desc desc = HEED_GRAPH_ATTENTION_DESC_INIT;
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  SmallGraph graph;
  Bytes query, key, value, data, edge_data, edge_bias, head_weights;
  Bytes w_query, w_key, w_value, b_query, b_key, b_value, w_edge_key, w_edge_value;
  Bytes out{kPattern}, lse{kPattern}, weights{kPattern};
};

using GraphChange = std::function<void(GraphForm&)>;

/// Those that the problem has: with or without projections.
inline Fields fields_of(GraphForm& form) {
  Fields fields;
  heed_graph_attention_desc& d = form.desc;
  heed_graph_attention_args& a = form.args;
  fields.in("desc.")("inputs", d.inputs)("heads", d.heads)("features", d.features)(
      "value_features", d.value_features)("width", d.width)("edge_width", d.edge_width)(
      "steps", d.steps)("scale", d.scale)("softcap", d.softcap)("temperature", d.temperature)(
      "hard", d.hard)("combine", d.combine)("residual", d.residual)("data", d.data)(
      "edge_data", d.edge_data)("edge_bias", d.edge_bias)("out", d.out)("lse", d.lse)(
      "weights", d.weights)("w_edge_key", d.w_edge_key)("w_edge_value", d.w_edge_value);
  if (d.inputs == HEED_GRAPH_PROJECTED)
    fields("query", d.query)("key", d.key)("value", d.value);
  else
    fields("w_query", d.w_query)("w_key", d.w_key)("w_value", d.w_value);
  if (d.inputs == HEED_GRAPH_SHARED) fields("bias_dtype", d.bias_dtype);
  fields.in("args.")("reserved", a.reserved)("query", a.query)("key", a.key)("value", a.value)(
      "data", a.data)("w_query", a.w_query)("w_key", a.w_key)("w_value", a.w_value)(
      "b_query", a.b_query)("b_key", a.b_key)("b_value", a.b_value)("edge_data", a.edge_data)(
      "w_edge_key", a.w_edge_key)("w_edge_value", a.w_edge_value)("edge_bias", a.edge_bias)(
      "head_weights", a.head_weights)("out", a.out)("lse", a.lse)("weights", a.weights);
  return fields;
}

}  // namespace api_test
