#include "api/python/module/graph.hpp"

#include "api/python/module/bind.hpp"
#include "api/python/module/call.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/errors.hpp"
#include "api/python/module/plan.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {

Graph::Graph(nb::handle context, const heed_graph_desc& desc) {
  const HeldContext held = hold_context(context);
  const double numbers = static_cast<double>(desc.nodes) + 16 * static_cast<double>(desc.edges);
  check(without_gil(numbers, {}, [&] { return heed_graph_create(held.context, &desc, &graph_); }));
  check(heed_graph_describe(graph_, &info_));
}

bool Indices::is_narrow(const char* name, nb::handle from) {
  if (nb::isinstance<nb::list>(from) || nb::isinstance<nb::tuple>(from)) return false;
  const Element element = read_array(name, from).form.element;
  if (element != Element::kI32 && element != Element::kI64)
    refuse("%s is %s; it must be int32 or int64", name, name_of(element));
  return element == Element::kI32;
}

std::uint32_t read_duplicates(nb::handle from) {
  if (from.is_none()) return HEED_DUPLICATES_DEFAULT;
  if (from.equal(nb::str("remove"))) return HEED_DUPLICATES_REMOVE;
  if (from.equal(nb::str("keep"))) return HEED_DUPLICATES_KEEP;
  refuse("duplicates is %s; it must be \"remove\", \"keep\" or None", nb::repr(from).c_str());
}

namespace {

/// What an edge list and rows have in common.
heed_graph_desc described(const Indices& indices, nb::handle source_nodes, nb::handle duplicates,
                          nb::handle reverse) {
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.index_type = indices.type;
  desc.duplicates = read_duplicates(duplicates);
  desc.reverse = flag("reverse", reverse) ? 1 : 0;
  if (source_nodes.is_none()) return desc;
  desc.source_nodes = integer("source_nodes", source_nodes);
  if (desc.source_nodes < 1)
    refuse("source_nodes is %lld; it must be at least 1, or None: edges lead from the nodes",
           static_cast<long long>(desc.source_nodes));
  if (desc.reverse != 0)
    refuse_unsupported("reverse is True; it must be False with source_nodes, which are %lld",
                       static_cast<long long>(desc.source_nodes));
  return desc;
}

void from_edges(Graph* self, nb::handle sources, nb::handle destinations, nb::handle nodes,
                nb::handle source_nodes, nb::handle duplicates, nb::handle reverse,
                nb::handle context) {
  const Indices indices({"sources", "destinations"}, {sources, destinations});
  if (indices.count(0) != indices.count(1))
    refuse("sources has %lld entries and destinations %lld; an edge is one of each",
           static_cast<long long>(indices.count(0)), static_cast<long long>(indices.count(1)));
  heed_graph_desc desc = described(indices, source_nodes, duplicates, reverse);
  desc.nodes = integer("nodes", nodes);
  desc.edges = indices.count(0);
  desc.sources = indices.data(0);
  desc.destinations = indices.data(1);
  new (self) Graph(context, desc);
}

Graph* from_csr(nb::handle offsets, nb::handle sources, nb::handle source_nodes,
                nb::handle duplicates, nb::handle reverse, nb::handle context) {
  const Indices indices({"offsets", "sources"}, {offsets, sources});
  if (indices.count(0) == 0)
    refuse("offsets is empty; it must hold one number more than there are nodes");
  heed_graph_desc desc = described(indices, source_nodes, duplicates, reverse);
  desc.nodes = indices.count(0) - 1;
  desc.edges = indices.count(1);
  desc.offsets = indices.data(0);
  desc.sources = indices.data(1);
  return new Graph(context, desc);
}

nb::dict describe(const Graph& graph) {
  const heed_graph_info& info = graph.info();
  nb::dict said;
  said["nodes"] = info.nodes;
  said["source_nodes"] = info.source_nodes;
  said["edges"] = info.edges;
  said["edges_given"] = info.edges_given;
  said["isolated"] = info.isolated;
  said["most"] = info.most;
  said["bytes"] = info.bytes;
  said["reverse"] = info.reverse != 0;
  return said;
}

nb::str representation(const Graph& graph) {
  const heed_graph_info& info = graph.info();
  if (info.source_nodes == 0)
    return nb::str("<heed.Graph: {} nodes, {} edges>").format(info.nodes, info.edges);
  return nb::str("<heed.Graph: {} nodes, {} source nodes, {} edges>")
      .format(info.nodes, info.source_nodes, info.edges);
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<Graph> graph(
      module, "Graph",
      R"(Directed edges from sources to destinations, over which destinations attend to sources.

Edges are checked and sorted once; the arrays are not needed afterwards. A self-loop is an edge like
any other. Any threads, calls and plans may use one graph.

    sources       [edges] of int32 or int64, each from 0 to nodes - 1; of PyTorch Geometric's
                  edge_index, edge_index[0]
    destinations  [edges], likewise; edge_index[1]
    nodes         how many there are
    source_nodes  edges lead from nodes of another kind, with numbers of their own: from 0 to
                  source_nodes - 1. Keys and values then have a row for each of these. Not with
                  reverse
    duplicates    what becomes of edges with the source and destination of an earlier one:
                  "remove" (the default here) or "keep", each counts (the default of from_csr)
    reverse       also sort edges by source, which heed.graph_attention_backward needs
    context       where to sort; the default one unless given

Row e of arrays over edges (edge_data, edge_bias, weights) belongs to the e-th edge given.

>>> import heed
>>> heed.Graph([0, 1, 2, 2], [1, 2, 0, 0], nodes=3)
<heed.Graph: 3 nodes, 3 edges>

In C: heed_graph_create.)");
  method(graph,
         "def __init__(self, sources: object, destinations: object, *, nodes: int, "
         "source_nodes: int | None = None, duplicates: str | None = None, reverse: bool = False, "
         "context: Context | None = None) -> None",
         &from_edges);
  function(
      graph,
      "def from_csr(offsets: object, sources: object, *, source_nodes: int | None = None, "
      "duplicates: str | None = None, reverse: bool = False, "
      "context: Context | None = None) -> Graph",
      &from_csr,
      R"(A graph from rows by destination: the edges offsets[n] to offsets[n + 1] - 1 end at node n.

    offsets  [nodes + 1], from 0 to the number of edges, never decreasing
    sources  [edges], of the same type

Everything else is as of heed.Graph.

>>> import heed
>>> heed.Graph.from_csr([0, 1, 1, 3], [2, 0, 1]).describe()["isolated"]
1

In C: heed_graph_create with offsets.)");
  method(graph, "def describe(self) -> dict[str, int]", &describe,
         "What it holds: nodes; source_nodes, or 0 where edges lead from the nodes; edges that "
         "count; edges_given, what arrays over edges have rows for; isolated, nodes without "
         "incoming edges; most, incoming edges of a node; bytes; reverse, whether edges are sorted "
         "by source too. In C: heed_graph_describe.");
  graph.def("__repr__", &representation);
  refuse_pickling(graph, "it lies as this computer reads it: pickle sources and destinations");
}

heed_layout layout_over(const Form& form) {
  heed_layout layout = HEED_LAYOUT_INIT;
  if (form.axes == 0) return layout;
  layout = layout_of(form, true);
  if (form.axes == 3) return layout;
  layout.stride_row = form.stride(2);
  layout.stride_head = 0;
  return layout;
}

heed_layout heads_layout(const Form& form) {
  heed_layout layout = layout_over(form);
  if (form.axes == 0) return layout;
  layout.stride_row = form.strides[0];
  layout.stride_head = form.axes == 2 ? form.strides[1] : 0;
  layout.stride_feature = 0;
  return layout;
}

namespace {

void read_sizes(GraphCall& call, nb::handle heads) {
  heed_graph_attention_desc& desc = call.desc;
  const Form& query = call.tensors[GraphCall::kQuery].form;
  const Form& key = call.tensors[GraphCall::kKey].form;
  const Form& value = call.tensors[GraphCall::kValue].form;
  const bool projected = desc.inputs == HEED_GRAPH_PROJECTED;
  if (!heads.is_none()) desc.heads = integer("heads", heads);
  if (projected) {
    if (!heads.is_none() && desc.heads != query.size(2))
      refuse("heads is %lld; query is %s", static_cast<long long>(desc.heads), text(query).c_str());
    desc.heads = query.size(2);
    if (key.size(2) != query.size(2) || key.size(1) != query.size(1) ||
        value.size(2) != query.size(2))
      refuse(
          "query is %s, key is %s, value is %s; heads, and features of query and key, must be "
          "the same",
          text(query).c_str(), text(key).c_str(), text(value).c_str());
    desc.features = query.size(1);
    desc.value_features = value.size(1);
  } else if (heads.is_none()) {
    refuse_type("heads is None; it must be given with data");
  }
  if (desc.heads < 1)
    refuse("heads is %lld; it must be at least 1", static_cast<long long>(desc.heads));
  if (!projected) {
    desc.features = features_of("w_query", call.matrices[GraphCall::kWQuery], desc.heads);
    desc.value_features = features_of("w_value", call.matrices[GraphCall::kWValue], desc.heads);
  }
  check_columns("w_key", call.matrices[GraphCall::kWKey], desc.heads, desc.features);
  check_columns("w_edge_key", call.matrices[GraphCall::kWEdgeKey], desc.heads, desc.features);
  check_columns("w_edge_value", call.matrices[GraphCall::kWEdgeValue], desc.heads,
                desc.value_features);
  const Form& bias = call.tensors[GraphCall::kEdgeBias].form;
  if (bias.axes == 2 && bias.size(1) != desc.heads && bias.size(1) != 1)
    refuse("edge_bias is %s; it must have a number for each of the %lld heads, or one",
           text(bias).c_str(), static_cast<long long>(desc.heads));
  if (call.tensors[GraphCall::kData].form.axes > 0)
    desc.width = call.tensors[GraphCall::kData].form.size(1);
  if (call.tensors[GraphCall::kEdgeData].form.axes > 0)
    desc.edge_width = call.tensors[GraphCall::kEdgeData].form.size(1);
}

void read_settings(GraphCall& call, const GraphArguments& arguments) {
  heed_graph_attention_desc& desc = call.desc;
  const Options scores = read_options("graph_attention", arguments.scores);
  heed_attention_desc choices = HEED_ATTENTION_DESC_INIT;
  read_choices(choices, scores);
  desc.scale = choices.scale;
  desc.softcap = choices.softcap;
  desc.temperature = choices.temperature;
  desc.hard = choices.hard;
  if (desc.hard != 0 && scores.temperature.is_valid())
    refuse("temperature is given with hard, which has no denominator");
  desc.steps = integer("steps", arguments.settings[3]);
  if (desc.steps < 1)
    refuse("steps is %lld; it must be at least 1", static_cast<long long>(desc.steps));
  if (desc.steps > 1 && desc.inputs == HEED_GRAPH_PROJECTED)
    refuse("steps is %lld; query, key and value do not change, so it must be 1: give data",
           static_cast<long long>(desc.steps));
  const std::int64_t row =
      desc.combine == HEED_COMBINE_CONCAT ? desc.heads * desc.value_features : desc.value_features;
  if ((desc.steps > 1 || desc.residual != 0) && desc.width != row)
    refuse("data has %lld features; with %s it must have as many as a row of the result, %lld",
           static_cast<long long>(desc.width), desc.residual != 0 ? "residual" : "steps above 1",
           static_cast<long long>(row));
}

void place(GraphCall& call) {
  heed_graph_attention_desc& desc = call.desc;
  heed_graph_attention_args& args = call.args;
  const Array* const t = call.tensors;
  const auto pointer = [](const Array& array) -> const void* {
    return array.form.axes > 0 ? address_of(array) : nullptr;
  };
  desc.query = layout_over(t[GraphCall::kQuery].form), args.query = pointer(t[GraphCall::kQuery]);
  desc.key = layout_over(t[GraphCall::kKey].form), args.key = pointer(t[GraphCall::kKey]);
  desc.value = layout_over(t[GraphCall::kValue].form), args.value = pointer(t[GraphCall::kValue]);
  desc.data = layout_over(t[GraphCall::kData].form), args.data = pointer(t[GraphCall::kData]);
  desc.edge_data = layout_over(t[GraphCall::kEdgeData].form);
  args.edge_data = pointer(t[GraphCall::kEdgeData]);
  desc.edge_bias = heads_layout(t[GraphCall::kEdgeBias].form);
  args.edge_bias = pointer(t[GraphCall::kEdgeBias]);
  const Matrix* const m = call.matrices;
  desc.w_query = m[GraphCall::kWQuery].layout;
  desc.w_key = m[GraphCall::kWKey].layout;
  desc.w_value = m[GraphCall::kWValue].layout;
  if (call.info.nodes > 0 || desc.inputs != HEED_GRAPH_PER_NODE) {
    args.w_query = m[GraphCall::kWQuery].data;
    args.w_key = m[GraphCall::kWKey].data;
    args.w_value = m[GraphCall::kWValue].data;
  }
  desc.w_edge_key = m[GraphCall::kWEdgeKey].layout;
  args.w_edge_key = m[GraphCall::kWEdgeKey].data;
  desc.w_edge_value = m[GraphCall::kWEdgeValue].layout;
  args.w_edge_value = m[GraphCall::kWEdgeValue].data;
  args.p_query = m[GraphCall::kWQuery].prepared, args.b_query = call.biases[0].data;
  args.p_key = m[GraphCall::kWKey].prepared, args.b_key = call.biases[1].data;
  args.p_value = m[GraphCall::kWValue].prepared, args.b_value = call.biases[2].data;
}

void make_out(GraphCall& call, nb::handle given) {
  const Array& like = call.tensors[call.like()];
  const Shape sizes = call.out_shape();
  const std::int64_t* const shape = sizes.sizes.data();
  const int axes = sizes.axes();
  call.out_given = !given.is_none();
  if (call.out_given) {
    call.out = take_out(given, shape, axes, kGraphTensors[call.like()], like.form.element);
    call.outputs.out = nb::borrow(given);
    call.args.out = address_of(call.out);
  } else {
    Made made = make_array(like.kind, like.form.element, shape, axes);
    call.out.form = contiguous_form(like.form.element, shape, axes);
    call.outputs.out = std::move(made.object);
    call.args.out = made.data;
  }
  call.desc.out = call.out_layout(call.out.form);
}

void make_outputs_beside_out(GraphCall& call, const nb::tuple& settings) {
  const heed_graph_info& info = call.info;
  const Kind& kind = call.tensors[call.like()].kind;
  const Element real = call.float64 ? Element::kF64 : Element::kF32;
  if (flag("return_lse", settings[4])) {
    if (call.desc.hard != 0) refuse("return_lse is given with hard, which has no denominator");
    const std::int64_t shape[] = {info.nodes, call.desc.heads};
    Made made = make_array(kind, real, shape, 2);
    call.outputs.lse = std::move(made.object);
    call.args.lse = made.data;
  }
  if (flag("return_weights", settings[5])) {
    const std::int64_t shape[] = {info.edges_given, call.desc.heads};
    Made made = make_array(kind, real, shape, 2);
    call.outputs.weights = std::move(made.object);
    call.args.weights = made.data;
  }
}

}  // namespace

void GraphCall::read(const GraphArguments& arguments) {
  if (!nb::isinstance<Graph>(arguments.graph))
    refuse_type("graph must be a heed.Graph, not %s", type_text(arguments.graph).c_str());
  graph = nb::inst_ptr<Graph>(arguments.graph);
  read(arguments, graph->info());
}

void GraphCall::read(const GraphArguments& arguments, const heed_graph_info& sizes) {
  info = sizes;
  read_inputs(*this, arguments);
  read_tensors(*this, arguments);
  read_matrices(*this, arguments);
  desc.combine = read_combine(arguments.settings[1], HEED_COMBINE_MAX);
  read_sizes(*this, arguments.settings[0]);
  read_settings(*this, arguments);
  args.head_weights = read_head_weights(desc.combine, arguments.parameter(kHeadWeights), float64,
                                        desc.heads, head_weights);
  place(*this);
}

void GraphCall::make_outputs(const GraphArguments& arguments) {
  make_out(*this, arguments.out);
  make_outputs_beside_out(*this, arguments.settings);
}

Shape GraphCall::out_shape() const {
  const bool concat = desc.combine == HEED_COMBINE_CONCAT;
  const bool apart = concat && like() == kQuery;
  const std::int64_t heads = concat ? desc.heads : 1;
  if (apart) return Shape({info.nodes, heads, desc.value_features}, 0);
  return Shape({info.nodes, heads * desc.value_features}, 0);
}

heed_layout GraphCall::out_layout(const Form& form) const {
  heed_layout layout = layout_over(form);
  if (form.axes == 2 && desc.combine == HEED_COMBINE_CONCAT)
    layout.stride_head = desc.value_features * layout.stride_feature;
  return layout;
}

nb::object GraphCall::result(const GraphArguments& arguments) const {
  return outputs.result(tensors[like()].kind, out_given, arguments.tensor(like()));
}

double GraphCall::flops() const {
  const auto row = static_cast<double>(desc.heads * (desc.features + desc.value_features));
  const auto rows = static_cast<double>(info.edges) +
                    static_cast<double>(info.nodes) * (2.0 * static_cast<double>(desc.width) +
                                                       static_cast<double>(desc.edge_width));
  return 2.0 * row * rows * static_cast<double>(desc.steps);
}

// ---- What attention over a graph is given: which arrays and matrices, and of which shapes ----

const char* const kGraphTensors[GraphCall::kTensors] = {"query", "key",       "value",
                                                        "data",  "edge_data", "edge_bias"};
const NamedMatrix kGraphMatrices[GraphCall::kMatrices] = {{"w_query", "b_query"},
                                                          {"w_key", "b_key"},
                                                          {"w_value", "b_value"},
                                                          {"w_edge_key", nullptr},
                                                          {"w_edge_value", nullptr}};

namespace {

struct Axes {
  int least;
  int most;
  const char* text;
};
constexpr Axes kAxes[GraphCall::kTensors] = {
    {3, 3, "[nodes, heads, features]"}, {3, 3, "[nodes, heads, features]"},
    {3, 3, "[nodes, heads, features]"}, {2, 2, "[nodes, width]"},
    {2, 2, "[edges, edge width]"},      {1, 2, "[edges, heads], or [edges] for all heads"}};

}  // namespace

void read_tensors(GraphCall& call, const GraphArguments& arguments) {
  const heed_graph_info& info = call.info;
  const char* like = nullptr;
  for (int i = 0; i < GraphCall::kTensors; ++i) {
    const nb::handle from = arguments.tensor(i);
    if (from.is_none()) continue;
    const char* name = kGraphTensors[i];
    Array& tensor = call.tensors[i];
    tensor = read_array(name, from);
    const Form& form = tensor.form;
    if (form.axes < kAxes[i].least || form.axes > kAxes[i].most)
      refuse("%s has shape %s; it must have axes %s", name,
             shape_text(form.shape, form.axes).c_str(), kAxes[i].text);
    check_floating(name, form);
    if (like == nullptr) {
      like = name;
      call.float64 = form.element == Element::kF64;
    }
    check_arithmetic(name, form, like, call.float64);
    const bool over_edges = i == GraphCall::kEdgeData || i == GraphCall::kEdgeBias;
    const bool of_sources =
        info.source_nodes > 0 && (i == GraphCall::kKey || i == GraphCall::kValue);
    const std::int64_t rows = over_edges   ? info.edges_given
                              : of_sources ? info.source_nodes
                                           : info.nodes;
    if (form.shape[0] != rows)
      refuse("%s is %s; it must have a row for each of the %lld %s", name, text(form).c_str(),
             static_cast<long long>(rows),
             over_edges   ? "edges given"
             : of_sources ? "source_nodes"
                          : "nodes");
    if (form.axes > 1 && form.size(1) == 0)
      refuse("%s is %s; it must have features", name, text(form).c_str());
  }
}

void read_inputs(GraphCall& call, const GraphArguments& arguments) {
  const bool projected = arguments.has_tensor(GraphCall::kQuery);
  if (!projected && call.info.source_nodes > 0)
    refuse_type("query is None; a graph with source_nodes takes query, key and value");
  for (int i = 0; i < 3; ++i) {
    const int tensor = GraphCall::kQuery + i;
    const char* name = kGraphTensors[tensor];
    const bool is_given = arguments.has_tensor(tensor);
    if (is_given != projected)
      refuse_type("query is %s but %s is %s; give query, key and value, or none of them",
                  projected ? "given" : "None", name, is_given ? "given" : "None");
  }
  for (int i = 0; i < 3; ++i) {
    const char* matrix = kGraphMatrices[i].name;
    if (projected && arguments.has_parameter(i))
      refuse("%s is given beside query, key and value; it belongs to data", matrix);
    if (!projected && !arguments.has_parameter(i))
      refuse_type("%s is None; give query, key and value, or data with w_query, w_key and w_value",
                  matrix);
  }
  const bool residual = flag("residual", arguments.settings[2]);
  call.desc.residual = residual ? 1 : 0;
  if (arguments.has_tensor(GraphCall::kData) != (!projected || residual))
    refuse_type("data is %s", projected
                                  ? (residual ? "None; residual=True adds to it"
                                              : "given beside query, key and value, which "
                                                "only residual=True needs")
                                  : "None; w_query, w_key and w_value are multiplied with it");
  if (projected) return;
  const nb::handle first = arguments.parameter(GraphCall::kWQuery);
  const bool per_node =
      !nb::isinstance<Weights>(first) && read_array("w_query", first).form.axes == 3;
  call.desc.inputs = per_node ? HEED_GRAPH_PER_NODE : HEED_GRAPH_SHARED;
}

void read_matrices(GraphCall& call, const GraphArguments& arguments) {
  const bool per_node = call.desc.inputs == HEED_GRAPH_PER_NODE;
  const Array* const tensors = call.tensors;
  for (int i = 0; i < GraphCall::kMatrices; ++i) {
    if (!arguments.has_parameter(i)) continue;
    const NamedMatrix& names = kGraphMatrices[i];
    const bool of_edges = i >= GraphCall::kWEdgeKey;
    const nb::handle from = arguments.parameter(i);
    if ((of_edges || per_node) && nb::isinstance<Weights>(from))
      refuse_type("%s must be an array, not heed.Weights, which %s", names.name,
                  of_edges ? "edges do not take" : "all nodes share");
    if (of_edges && !arguments.has_tensor(GraphCall::kEdgeData))
      refuse("%s is given without edge_data", names.name);
    Matrix& matrix = call.matrices[i];
    matrix = read_matrix(names.name, from, per_node && !of_edges ? 3 : 2);
    const Form& form = matrix.array.form;
    if (matrix.data != nullptr)
      check_arithmetic(names.name, form, of_edges ? "edge_data" : kGraphTensors[call.like()],
                       call.float64);
    if (per_node && !of_edges) {
      const std::int64_t nodes = call.info.nodes;
      if (form.shape[0] != nodes)
        refuse("%s is %s; it must have a matrix for each of the %lld nodes", names.name,
               text(form).c_str(), static_cast<long long>(nodes));
      matrix.in = form.size(2);
    }
    const Form& source = tensors[of_edges ? GraphCall::kEdgeData : GraphCall::kData].form;
    check_in(names.name, matrix, of_edges ? "edge_data" : "data", source.size(1));
  }
  for (int i = 0; i < 3 && call.desc.inputs != HEED_GRAPH_SHARED; ++i)
    if (arguments.has_parameter(GraphCall::kBQuery + i))
      refuse("%s is given; only matrices that all nodes share have biases",
             kGraphMatrices[i].bias_name);
  call.desc.bias_dtype = read_biases(kGraphMatrices, call.matrices, 3, arguments.parameters,
                                     GraphCall::kBQuery, call.biases);
  const bool edges = arguments.has_tensor(GraphCall::kEdgeData);
  if (edges && !arguments.has_parameter(GraphCall::kWEdgeKey) &&
      !arguments.has_parameter(GraphCall::kWEdgeValue))
    refuse_type("edge_data is given without w_edge_key or w_edge_value");
}

}  // namespace heed::python
