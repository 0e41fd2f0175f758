#include "api/python/module/graph_call.hpp"

#include "api/python/module/combine.hpp"

namespace heed::python {

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

}  // namespace heed::python
