// What attention over a graph is given: which arrays and matrices, and of which shapes.
#include "api/python/module/graph_call.hpp"

namespace heed::python {

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
