// heed.Graph; heed.graph_attention, its plans and its gradients.
#include "api/python/module/graph.hpp"

#include <tuple>

#include "api/python/module/gradients.hpp"
#include "api/python/module/plan.hpp"

namespace heed::python {

Graph::Graph(nb::handle context, const heed_graph_desc& desc) {
  const double numbers = static_cast<double>(desc.nodes) + 16 * static_cast<double>(desc.edges);
  run_in(context, numbers, nullptr,
         [&](const heed_context* held) { return heed_graph_create(held, &desc, &graph_); });
  check(heed_graph_describe(graph_, &info_));
}

namespace {

bool is_narrow(const char* name, nb::handle from) {
  if (!from.is_valid()) from = Py_None;
  if (nb::isinstance<nb::list>(from) || nb::isinstance<nb::tuple>(from)) return false;
  const Element element = read_array(name, from).form.element;
  if (element != Element::kI32 && element != Element::kI64)
    refuse("{} is {}; it must be int32 or int64", name, name_of(element));
  return element == Element::kI32;
}

}  // namespace

Indices::Indices(const char* const (&names)[2], const nb::handle (&from)[2]) {
  if (is_narrow(names[0], from[0]) && is_narrow(names[1], from[1])) type = HEED_INDEX_I32;
  for (int i = 0; i < 2; ++i)
    if (type == HEED_INDEX_I32)
      narrow[i] = read_vector<std::int32_t>(names[i], from[i]);
    else
      wide[i] = read_vector<std::int64_t>(names[i], from[i]);
}

const void* Indices::data(int i) const {
  if (count(i) == 0) return nullptr;
  return type == HEED_INDEX_I32 ? static_cast<const void*>(narrow[i].data) : wide[i].data;
}

Indices read_edges(nb::handle sources, nb::handle destinations) {
  Indices edges({"sources", "destinations"}, {sources, destinations});
  if (edges.count(0) != edges.count(1))
    refuse("sources has {} entries and destinations {}; an edge is one of each", edges.count(0),
           edges.count(1));
  return edges;
}

std::uint32_t read_duplicates(nb::handle from) {
  if (!from.is_valid()) return HEED_DUPLICATES_DEFAULT;
  return HEED_DUPLICATES_REMOVE + read_word("duplicates", from, {"remove", "keep"});
}

namespace {

/// The descriptor of an edge list, or of rows with offsets.
heed_graph_desc described(const Indices& indices, const Given& given) {
  heed_graph_desc desc = HEED_GRAPH_DESC_INIT;
  desc.index_type = indices.type;
  desc.duplicates = read_duplicates(given["duplicates"]);
  desc.reverse = flag("reverse", given["reverse"]) ? 1 : 0;
  const nb::handle source_nodes = given["source_nodes"];
  if (!source_nodes.is_valid()) return desc;
  desc.source_nodes = count("source_nodes", source_nodes, ", or None: edges lead from the nodes");
  if (desc.reverse != 0)
    refuse_unsupported("reverse is True; it must be False with source_nodes, which are {}",
                       desc.source_nodes);
  return desc;
}

void from_edges(Graph* self, const Given& given) {
  const Indices edges = read_edges(given["sources"], given["destinations"]);
  heed_graph_desc desc = described(edges, given);
  desc.nodes = integer("nodes", given["nodes"]);
  desc.edges = edges.count(0);
  desc.sources = edges.data(0);
  desc.destinations = edges.data(1);
  new (self) Graph(given["context"], desc);
}

Graph* from_csr(const Given& given) {
  const Indices indices({"offsets", "sources"}, {given["offsets"], given["sources"]});
  if (indices.count(0) == 0)
    refuse("offsets is empty; it must hold one number more than there are nodes");
  heed_graph_desc desc = described(indices, given);
  desc.nodes = indices.count(0) - 1;
  desc.edges = indices.count(1);
  desc.offsets = indices.data(0);
  desc.sources = indices.data(1);
  return new Graph(given["context"], desc);
}

nb::dict describe(const Graph& graph) {
  const heed_graph_info& info = graph.info();
  return dict_of("nodes", info.nodes, "source_nodes", info.source_nodes, "edges", info.edges,
                 "edges_given", info.edges_given, "isolated", info.isolated, "most", info.most,
                 "bytes", info.bytes, "reverse", info.reverse != 0);
}

nb::str representation(const Graph& graph) {
  const heed_graph_info& info = graph.info();
  if (info.source_nodes == 0)
    return nb::str("<heed.Graph: {} nodes, {} edges>").format(info.nodes, info.edges);
  return nb::str("<heed.Graph: {} nodes, {} source nodes, {} edges>")
      .format(info.nodes, info.source_nodes, info.edges);
}

}  // namespace

// ---- The operands of attention over a graph: arrays and matrices, and their shapes ----

#define HEED_TENSOR(name) HEED_OPERAND(GraphApi, name, name)
const GraphTensor GraphCall::kTensorRows[] = {
    {HEED_TENSOR(query), GraphTensor::kNodes, 3, 3, "[nodes, heads, features]"},
    {HEED_TENSOR(key), GraphTensor::kSources, 3, 3, "[nodes, heads, features]"},
    {HEED_TENSOR(value), GraphTensor::kSources, 3, 3, "[nodes, heads, features]"},
    {HEED_TENSOR(data), GraphTensor::kNodes, 2, 2, "[nodes, width]"},
    {HEED_TENSOR(edge_data), GraphTensor::kEdges, 2, 2, "[edges, edge width]"},
    {HEED_TENSOR(edge_bias), GraphTensor::kEdges, 1, 2,
     "[edges, heads], or [edges] for all heads"}};
const Projection GraphCall::kMatrixRows[] = {HEED_PROJECTION(GraphApi, query),
                                             HEED_PROJECTION(GraphApi, key),
                                             HEED_PROJECTION(GraphApi, value),
                                             {HEED_TENSOR(w_edge_key), {}, 0},
                                             {HEED_TENSOR(w_edge_value), {}, 0}};

namespace {

/// The layout of rows over nodes or edges.
heed_layout layout_over(const Form& form) {
  return form.axes == 3 ? layout_of(form, true) : layout_by(form, 0, 0, 2, 1);
}

/// The layout of numbers over nodes or edges: [rows, heads] or [rows].
heed_layout heads_layout(const Form& form) {
  return layout_by(form, 0, form.axes - 1, form.axes, 0);
}

heed_layout layout_of(int tensor, const Form& form) {
  return tensor == GraphCall::kEdgeBias ? heads_layout(form) : layout_over(form);
}

/// Where queries, keys and values come from, by what is given.
void read_inputs(GraphCall& call, const Arguments& given) {
  const bool projected = given.query.is_valid();
  if (!projected && call.info.source_nodes > 0)
    refuse_type("query is None; a graph with source_nodes takes query, key and value");
  for (const auto& [name, one] : {std::pair{"key", given.key}, std::pair{"value", given.value}})
    if (one.is_valid() != projected)
      refuse_type("query is {} but {} is {}; give query, key and value, or none of them",
                  projected ? "given" : "None", name, one.is_valid() ? "given" : "None");
  for (int i = 0; i < GraphCall::kOfNodes; ++i) {
    const Operand& matrix = GraphCall::kMatrixRows[i].matrix;
    const bool has = (given.*matrix.given).is_valid();
    if (projected && has)
      refuse("{} is given beside query, key and value; it belongs to data", matrix.name);
    if (!projected && !has)
      refuse_type("{} is None; give query, key and value, or data with w_query, w_key and w_value",
                  matrix.name);
  }
  const bool residual = is_asked("residual", given.residual);
  call.desc.residual = residual ? 1 : 0;
  if (given.data.is_valid() != (!projected || residual))
    refuse_type("data is {}", !projected ? "None; w_query, w_key and w_value are multiplied with it"
                              : residual ? "None; residual=True adds to it"
                                         : "given beside query, key and value, which only "
                                           "residual=True needs");
  if (projected) return;
  const bool per_node = !nb::isinstance<Weights>(given.w_query) &&
                        read_array("w_query", given.w_query).form.axes == 3;
  call.desc.inputs = per_node ? HEED_GRAPH_PER_NODE : HEED_GRAPH_SHARED;
}

/// Tensors over nodes and edges, of which the first is of the type that all have.
void read_tensors(GraphCall& call, const Arguments& given) {
  const heed_graph_info& info = call.info;
  const std::pair<std::int64_t, const char*> nodes = {info.nodes, "nodes"};
  const std::pair<std::int64_t, const char*> rows[] = {
      nodes,
      info.source_nodes > 0 ? std::pair{info.source_nodes, "source_nodes"} : nodes,
      {info.edges_given, "edges given"}};
  const char* like = nullptr;
  for (int i = 0; i < GraphCall::kTensors; ++i) {
    const GraphTensor& row = GraphCall::kTensorRows[i];
    const Operand& operand = row.operand;
    const nb::handle from = given.*operand.given;
    if (!from.is_valid()) continue;
    call.tensors[i] = read_array(operand.name, from);
    const Form& form = call.tensors[i].form;
    check_axes(operand.name, form, row.least_axes, row.most_axes, row.axes);
    check_floating(operand.name, form);
    if (like == nullptr) {
      like = operand.name;
      call.float64 = form.element == Element::kF64;
    }
    if (i != GraphCall::kEdgeBias) check_arithmetic(operand.name, form, like, call.float64);
    if (form.sizes[0] != rows[row.rows].first)
      refuse("{} is {}; it must have a row for each of the {} {}", operand.name, text(form),
             rows[row.rows].first, rows[row.rows].second);
    if (form.axes > 1) check_features(operand.name, form);
    set_member(&call.desc, operand.layout, layout_of(i, form));
    set_member(&call.args, operand.data, address_of(call.tensors[i]));
  }
}

void read_matrices(GraphCall& call, const Arguments& given) {
  const bool per_node = call.desc.inputs == HEED_GRAPH_PER_NODE;
  const bool edges = call.has(GraphCall::kEdgeData);
  for (int i = 0; i < GraphCall::kMatrices; ++i) {
    const Operand& row = GraphCall::kMatrixRows[i].matrix;
    const nb::handle from = given.*row.given;
    if (!from.is_valid()) continue;
    const bool of_edges = i >= GraphCall::kOfNodes;
    const bool apart = per_node && !of_edges;
    const GraphCall::Tensor source = of_edges ? GraphCall::kEdgeData : GraphCall::kData;
    if ((of_edges || per_node) && nb::isinstance<Weights>(from))
      refuse_type("{} must be an array, not heed.Weights, which {}", row.name,
                  of_edges ? "edges do not take" : "all nodes share");
    if (of_edges && !edges) refuse("{} is given without edge_data", row.name);
    Matrix& matrix = call.matrices[i];
    matrix = read_matrix(row.name, from, apart ? 3 : 2);
    const Form& form = matrix.array.form;
    if (matrix.data != nullptr)
      check_arithmetic(row.name, form, of_edges ? "edge_data" : call.like_name(), call.float64);
    if (apart && form.sizes[0] != call.info.nodes)
      refuse("{} is {}; it must have a matrix for each of the {} nodes", row.name, text(form),
             call.info.nodes);
    if (apart) matrix.in = form.size(2);
    check_in(row.name, matrix, GraphCall::kTensorRows[source].operand.name,
             call.tensors[source].form.size(1));
  }
  for (int i = 0; i < GraphCall::kOfNodes && call.desc.inputs != HEED_GRAPH_SHARED; ++i) {
    const Operand& bias = GraphCall::kMatrixRows[i].bias;
    if ((given.*bias.given).is_valid())
      refuse("{} is given; only matrices that all nodes share have biases", bias.name);
  }
  if (edges && !given.w_edge_key.is_valid() && !given.w_edge_value.is_valid())
    refuse_type("edge_data is given without w_edge_key or w_edge_value");
  call.desc.bias_dtype =
      place_with_biases(GraphCall::kMatrixRows, GraphCall::kMatrices, call.matrices, given,
                        call.biases, &call.desc, &call.args);
  if (per_node && call.info.nodes == 0)
    call.args.w_query = call.args.w_key = call.args.w_value = nullptr;
}

void read_sizes(GraphCall& call, nb::handle heads) {
  heed_graph_attention_desc& desc = call.desc;
  const Form& query = call.tensors[GraphCall::kQuery].form;
  const Form& key = call.tensors[GraphCall::kKey].form;
  const Form& value = call.tensors[GraphCall::kValue].form;
  const Matrix* const matrices = call.matrices;
  if (heads.is_valid()) desc.heads = integer("heads", heads);
  if (call.projected()) {
    if (heads.is_valid() && desc.heads != query.size(2))
      refuse("heads is {}; query is {}", desc.heads, text(query));
    desc.heads = query.size(2);
    if (key.size(2) != query.size(2) || key.size(1) != query.size(1) ||
        value.size(2) != query.size(2))
      refuse(
          "query is {}, key is {}, value is {}; heads, and features of query and key, must be "
          "the same",
          text(query), text(key), text(value));
    desc.features = query.size(1);
    desc.value_features = value.size(1);
  } else if (!heads.is_valid()) {
    refuse_type("heads is None; it must be given with data");
  }
  if (desc.heads < 1) refuse("heads is {}; it must be at least 1", desc.heads);
  if (!call.projected()) {
    desc.features = features_of("w_query", matrices[GraphCall::kWQuery], desc.heads);
    desc.value_features = features_of("w_value", matrices[GraphCall::kWValue], desc.heads);
  }
  check_columns("w_key", matrices[GraphCall::kWKey], desc.heads, desc.features);
  check_columns("w_edge_key", matrices[GraphCall::kWEdgeKey], desc.heads, desc.features);
  check_columns("w_edge_value", matrices[GraphCall::kWEdgeValue], desc.heads, desc.value_features);
  const Form& bias = call.tensors[GraphCall::kEdgeBias].form;
  if (bias.axes == 2 && bias.size(1) != desc.heads && bias.size(1) != 1)
    refuse("edge_bias is {}; it must have a number for each of the {} heads, or one", text(bias),
           desc.heads);
  if (call.has(GraphCall::kData)) desc.width = call.tensors[GraphCall::kData].form.size(1);
  if (call.has(GraphCall::kEdgeData))
    desc.edge_width = call.tensors[GraphCall::kEdgeData].form.size(1);
}

void read_settings(GraphCall& call, const Arguments& given) {
  heed_graph_attention_desc& desc = call.desc;
  read_softmax(desc, given);
  if (desc.hard != 0 && (given.temperature.is_valid() || desc.dropout > 0))
    refuse("{} is given with hard, which has no denominator",
           given.temperature.is_valid() ? "temperature" : "dropout");
  desc.steps = given.steps.is_valid() ? count("steps", given.steps) : 1;
  if (desc.steps > 1 && call.projected())
    refuse("steps is {}; query, key and value do not change, so it must be 1: give data",
           desc.steps);
  const std::int64_t row =
      desc.combine == HEED_COMBINE_CONCAT ? desc.heads * desc.value_features : desc.value_features;
  if ((desc.steps > 1 || desc.residual != 0) && desc.width != row)
    refuse("data has {} features; with {} it must have as many as a row of the result, {}",
           desc.width, desc.residual != 0 ? "residual" : "steps above 1", row);
}

}  // namespace

void GraphCall::read(const Arguments& given) {
  if (!given.graph.is_valid() || !nb::isinstance<Graph>(given.graph))
    refuse_type("graph must be a heed.Graph, not {}", type_text(given.graph));
  graph = nb::inst_ptr<Graph>(given.graph);
  read(given, graph->info());
}

void GraphCall::read(const Arguments& given, const heed_graph_info& sizes) {
  info = sizes;
  read_inputs(*this, given);
  read_tensors(*this, given);
  read_matrices(*this, given);
  if (given.combine.is_valid())
    desc.combine = read_word("combine", given.combine, {"concat", "weighted", "mean", "max"});
  read_sizes(*this, given.heads);
  read_settings(*this, given);
  args.head_weights =
      read_head_weights(desc.combine, given.head_weights, float64, desc.heads, head_weights);
  args.score_weights = read_score(desc, given, float64, desc.heads, score_weights);
  if (desc.score == HEED_SCORE_COSINE && matrices[kWEdgeKey].given())
    refuse("w_edge_key is given; score=\"cosine\" compares nodes alone");
  std::tie(args.dropout_seed, args.dropout_offset) = read_seed(desc.dropout, given.seed);
  args.dropout_edges = read_places("dropout_edges", desc.dropout, given.dropout_edges,
                                   info.edges_given, "edges given", dropout_edges);
}

void GraphCall::make_outputs(const Arguments& given) {
  const Array& first = tensors[like()];
  outputs.out = make_out(given.out, like_name(), first.kind, first.form.element, out_shape());
  desc.out = out_layout(outputs.out.array.form);
  args.out = outputs.out.data();
  const Element real = float64 ? Element::kF64 : Element::kF32;
  if (is_asked("return_lse", given.return_lse)) {
    if (desc.hard != 0) refuse("return_lse is given with hard, which has no denominator");
    outputs.lse = make_array(first.kind, real, {info.nodes, desc.heads});
    args.lse = outputs.lse.data();
  }
  if (is_asked("return_weights", given.return_weights)) {
    outputs.weights = make_array(first.kind, real, {info.edges_given, desc.heads});
    args.weights = outputs.weights.data();
  }
}

nb::object GraphCall::result(const Arguments& given) const {
  return outputs.result(tensors[like()].kind, given.*kTensorRows[like()].operand.given);
}

Shape GraphCall::out_shape() const {
  const bool concat = desc.combine == HEED_COMBINE_CONCAT;
  const bool apart = concat && like() == kQuery;
  const std::int64_t heads = concat ? desc.heads : 1;
  if (apart) return {info.nodes, heads, desc.value_features};
  return {info.nodes, heads * desc.value_features};
}

heed_layout GraphCall::out_layout(const Form& form) const {
  heed_layout layout = layout_over(form);
  if (form.axes == 2 && desc.combine == HEED_COMBINE_CONCAT)
    layout.stride_head = desc.value_features * layout.stride_feature;
  return layout;
}

double GraphCall::flops() const {
  const auto row = static_cast<double>(desc.heads * (desc.features + desc.value_features));
  const auto rows = static_cast<double>(info.edges) +
                    static_cast<double>(info.nodes) * (2.0 * static_cast<double>(desc.width) +
                                                       static_cast<double>(desc.edge_width));
  return 2.0 * row * rows * static_cast<double>(desc.steps);
}

NamedForms GraphCall::forms() const {
  NamedForms forms;
  for (int i = 0; i < kTensors; ++i)
    forms.emplace_back(kTensorRows[i].operand.name, tensors[i].form);
  for (int i = 0; i < kMatrices; ++i)
    forms.emplace_back(kMatrixRows[i].matrix.name, matrices[i].array.form);
  forms.emplace_back("out", outputs.out.array.form);
  return forms;
}

namespace {

// ---- heed.graph_attention, heed.graph_attention_plan and heed.GraphAttentionPlan ----

nb::object graph_attention(nb::handle arguments) {
  return compute<GraphCall>(read_arguments("graph_attention", arguments, kOfGraphs, kForward));
}

using GraphAttentionPlan =
    PlanOf<GraphCall, CPlan<&heed_graph_attention_plan_destroy, &heed_graph_attention_plan_describe,
                            &heed_graph_attention_plan_run>>;

GraphAttentionPlan* graph_attention_plan(nb::handle arguments) {
  return new GraphAttentionPlan(
      read_arguments("graph_attention_plan", arguments, kOfGraphs, kForward));
}

nb::dict describe_plan(const GraphAttentionPlan& plan) {
  const heed_graph_attention_info info = plan.info();
  return dict_of("isa", info.isa, "executor", info.executor, "threads", info.threads, "tasks",
                 info.tasks, "workspace_bytes", info.workspace_bytes, "gathered_bytes",
                 info.gathered_bytes);
}

// ---- heed.graph_attention_backward ----

/// As Gradients::wanted, by default where the operand is given; a gradient of nothing is refused.
nb::handle wanted(const Gradients& gradients, const Operand& row, bool given) {
  const nb::handle how = gradients.wanted(row, given);
  if (!given && how.is_valid()) refuse("{} is wanted, but no {} is given", row.gradient, row.name);
  return how;
}

/// In the order of heed.GraphGradients: tensors, matrices, biases, weights of heads and features.
void add_gradients(Gradients& gradients, const GraphCall& call) {
  const bool in_steps = call.desc.steps > 1;  // C sums gradients of edges and nodes where they lie
  for (int i = 0; i < GraphCall::kTensors; ++i) {
    const Operand& row = GraphCall::kTensorRows[i].operand;
    const Form& form = call.tensors[i].form;
    const nb::handle how = wanted(gradients, row, form.axes > 0);
    if (i == GraphCall::kEdgeBias && how.is_valid() && form.axes == 2 && form.size(1) > 1 &&
        form.stride(1) == 0 && form.elements() > 0)
      refuse("{} is wanted, but edge_bias repeats a number for all heads; give it as [edges]",
             row.gradient);
    const bool bias = i == GraphCall::kEdgeBias;
    const Gradient* const to = gradients.add(row, how, form, false, bias);
    if (to == nullptr) continue;
    if (in_steps && (bias || i == GraphCall::kEdgeData)) gradients.write_wide(row);
    gradients.set_layout(row, layout_of(i, to->form()));
  }
  for (int i = 0; i < GraphCall::kMatrices; ++i) {
    const Operand& row = GraphCall::kMatrixRows[i].matrix;
    const Matrix& matrix = call.matrices[i];
    const Gradient* const to =
        gradients.add(row, wanted(gradients, row, matrix.given()), matrix.array.form);
    if (to == nullptr) continue;
    const bool of_nodes = i < GraphCall::kOfNodes && call.desc.inputs == HEED_GRAPH_PER_NODE;
    if (in_steps && of_nodes) gradients.write_wide(row);
    gradients.set_layout(row, matrix_layout(to->form()));
  }
  for (int i = 0; i < GraphCall::kOfNodes; ++i) {
    const Operand& row = GraphCall::kMatrixRows[i].bias;
    gradients.add_reals(row, wanted(gradients, row, call.biases[i].data != nullptr),
                        call.matrices[i].out);
  }
  const Operand weights = HEED_VECTOR(GraphApi, head_weights);
  gradients.add_reals(weights, wanted(gradients, weights, call.args.head_weights != nullptr),
                      call.desc.heads);
  const Operand features = HEED_VECTOR(GraphApi, score_weights);
  gradients.add_reals(features, wanted(gradients, features, call.args.score_weights != nullptr),
                      score_weights_of(call.desc, call.desc.heads));
}

void check_differentiable(const GraphCall& call) {
  if (call.desc.hard != 0)
    refuse_unsupported("hard is True; it must be False: hard attention is not differentiable");
  for (int i = 0; i < GraphCall::kMatrices; ++i)
    if (call.matrices[i].prepared != nullptr)
      refuse_unsupported(
          "{} is heed.Weights; gradients need the array that they were made from, and its bias",
          GraphCall::kMatrixRows[i].matrix.name);
  if (call.info.reverse == 0) refuse("graph was made without reverse=True, which gradients need");
}

nb::object graph_attention_backward(nb::handle arguments) {
  const Arguments given = read_arguments("graph_attention_backward", arguments, kOfGraphs,
                                         kBackward & ~unsigned{kAsked});
  GraphCall call;
  call.read(given);
  check_differentiable(call);
  const Array& like = call.tensors[call.like()];
  heed_graph_attention_backward_desc desc = HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT;
  heed_graph_attention_backward_args args = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;
  desc.attention = &call.desc;
  args.attention = &call.args;
  Gradients gradients(given, call.like_name(), like.kind, like.form.element, &desc, &args);
  call.desc.out.dtype = dtype_of(like.form.element);  // which says what steps round to
  gradients.read_given(
      desc, args, call.out_shape(), [&](const Form& form) { return call.out_layout(form); },
      {call.info.nodes, call.desc.heads}, heads_layout);
  add_gradients(gradients, call);
  constexpr double kPasses = 3;  // by destination, and by source with twice the products
  run_in(given.context, kPasses * call.flops(), nullptr, [&](const heed_context* held) {
    return heed_graph_attention_backward(held, call.graph->get(), &desc, &args);
  });
  return gradients.result(names().graph_gradients,
                          given.*GraphCall::kTensorRows[call.like()].operand.given);
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
  nb::class_<GraphAttentionPlan> plan(
      module, "GraphAttentionPlan",
      R"(Attention over one graph, of fixed shapes, strides, types and settings, made by
heed.graph_attention_plan.

A call takes exactly the arrays among query, key, value, data, edge_data, edge_bias and out that the
plan was made with, in the same shapes, strides and types, and seed and dropout_edges if it was
given them. The plan keeps the graph, and the matrices and biases that it was given, which it reads
anew in every call. Any threads may call one plan at once: it keeps a workspace for each.

In C: heed_graph_attention_plan.)");
  method(plan,
         "def __call__(self, query: typing.Any | None = None, key: typing.Any | None = None, "
         "value: typing.Any | None = None, *, data: typing.Any | None = None, "
         "edge_data: typing.Any | None = None, edge_bias: typing.Any | None = None, "
         "seed: typing.Any | None = None, dropout_edges: typing.Any | None = None, "
         "out: typing.Any | None = None) -> typing.Any",
         &run<GraphAttentionPlan, kOfGraphs>,
         "Computes what heed.graph_attention would. In C: heed_graph_attention_plan_run.");
  method(plan, "def describe(self) -> dict[str, object]", &describe_plan,
         "How it computes: isa, executor, threads, tasks, workspace_bytes, gathered_bytes (of "
         "keys and values, read through edges in a step). In C: "
         "heed_graph_attention_plan_describe.");
  refuse_pickling(plan,
                  "it is made for this computer: make it anew with heed.graph_attention_plan");
  internal(module, "def graph_attention(arguments: object) -> typing.Any", &graph_attention);
  internal(module, "def graph_attention_plan(arguments: object) -> GraphAttentionPlan",
           &graph_attention_plan);
  internal(module, "def graph_attention_backward(arguments: object) -> typing.Any",
           &graph_attention_backward);
}

}  // namespace heed::python
