#include "tests/problem/graph_attention.hpp"

#include <cmath>
#include <sstream>
#include <stdexcept>

namespace heed_test {
namespace {

std::string shape_line(const char* name, const std::optional<Tensor>& tensor,
                       const heed_layout& layout) {
  std::ostringstream line;
  if (!tensor) return "";
  line << " " << name << " " << name_of_dtype(layout.dtype) << " (" << layout.stride_head << ","
       << layout.stride_row << "," << layout.stride_feature << ")";
  return line.str();
}

const void* data_of(const std::optional<Tensor>& tensor) {
  return tensor ? tensor->data() : nullptr;
}

}  // namespace

GraphProblem::GraphProblem(EdgeList graph, Index heads, Index features, Index value_features)
    : edges(std::move(graph)) {
  desc.heads = heads;
  desc.features = features;
  desc.value_features = value_features;
}

void GraphProblem::add_projected(const Types& types, const std::vector<Arrangement>& arrangements) {
  const auto at = [&](std::size_t i) {
    return i < arrangements.size() ? arrangements[i] : Arrangement::kDefault;
  };
  query = nodes_tensor(desc.heads, desc.features, types.query, at(0), desc.query);
  key = nodes_tensor(desc.heads, desc.features, types.key, at(1), desc.key);
  value = nodes_tensor(desc.heads, width(), types.value, at(2), desc.value);
}

void GraphProblem::add_data(Index columns, std::uint32_t dtype, Arrangement arrangement) {
  desc.width = columns;
  data = nodes_tensor(1, columns, dtype, arrangement, desc.data);
}

void GraphProblem::add_matrices(std::uint32_t dtype, Arrangement arrangement) {
  const Index count = desc.inputs == HEED_GRAPH_PER_NODE ? edges.nodes : 1;
  const Index columns = desc.heads * desc.features;
  w_query.matrix = matrix(count, desc.width, columns, dtype, arrangement, desc.w_query);
  w_key.matrix = matrix(count, desc.width, columns, dtype, arrangement, desc.w_key);
  w_value.matrix =
      matrix(count, desc.width, desc.heads * width(), dtype, arrangement, desc.w_value);
}

void GraphProblem::add_matrix_bias(Weighting& w) const {
  w.bias = placed({1, 1, 1, w.matrix->shape()[3]}, Arrangement::kDefault,
                  dtype_of(desc.bias_dtype, real()), misalign);
}

void GraphProblem::add_edge_data(Index columns, std::uint32_t dtype, Arrangement arrangement) {
  desc.edge_width = columns;
  edge_data =
      rows_tensor(edges.size(), 1, columns, HEED_DTYPE_F32, dtype, arrangement, desc.edge_data);
}

void GraphProblem::add_edge_keys(std::uint32_t dtype, Arrangement arrangement) {
  w_edge_key =
      matrix(1, desc.edge_width, desc.heads * desc.features, dtype, arrangement, desc.w_edge_key);
}

void GraphProblem::add_edge_values(std::uint32_t dtype, Arrangement arrangement) {
  w_edge_value =
      matrix(1, desc.edge_width, desc.heads * width(), dtype, arrangement, desc.w_edge_value);
}

void GraphProblem::add_edge_bias(std::uint32_t dtype, Arrangement arrangement) {
  edge_bias = rows_tensor(edges.size(), desc.heads, 1, real(), dtype, arrangement, desc.edge_bias);
}

void GraphProblem::add_shared_edge_bias(std::uint32_t dtype) {
  edge_bias.emplace(Axes{1, desc.heads, edges.size(), 1}, Axes{0, 0, 1, 0}, 0,
                    dtype_of(dtype, real()));
  desc.edge_bias = {dtype, 0, 0, 0, 1, 0};
}

void GraphProblem::add_out(std::uint32_t dtype, Arrangement arrangement) {
  out = nodes_tensor(out_heads_of(desc), width(), dtype, arrangement, desc.out);
}

void GraphProblem::want_lse(std::uint32_t dtype, Arrangement arrangement) {
  lse = rows_tensor(edges.nodes, desc.heads, 1, real(), dtype, arrangement, desc.lse);
}

void GraphProblem::want_weights(std::uint32_t dtype, Arrangement arrangement) {
  weights = rows_tensor(edges.size(), desc.heads, 1, real(), dtype, arrangement, desc.weights);
}

void GraphProblem::fill(std::uint64_t seed, double amplitude) {
  Random random(seed);
  const auto fill_one = [&](std::optional<Tensor>& tensor, double size) {
    if (tensor) tensor->fill([&] { return random.normal<double>() * size; });
  };
  for (auto* const tensor : {&query, &key, &value, &data, &edge_data}) fill_one(*tensor, amplitude);
  for (Weighting* const w : {&w_query, &w_key, &w_value}) {
    if (w->matrix) fill_one(w->matrix, 1 / std::sqrt(static_cast<double>(w->matrix->shape()[2])));
    fill_one(w->bias, amplitude / 2);
  }
  for (auto* const w : {&w_edge_key, &w_edge_value})
    if (*w) fill_one(*w, 0.5 / std::sqrt(static_cast<double>((*w)->shape()[2])));
  fill_one(edge_bias, amplitude);
  for (double& w : head_weights.numbers) w = random.normal<double>();
}

GraphExpected GraphProblem::expected(Index parts) {
  const heed_graph_attention_args arguments = args();
  return expect(GraphGiven{desc, arguments, edges}, parts);
}

heed_graph_attention_args GraphProblem::args() {
  heed_graph_attention_args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  args.query = data_of(query);
  args.key = data_of(key);
  args.value = data_of(value);
  args.data = data_of(data);
  args.w_query = w_query.data();
  args.w_key = w_key.data();
  args.w_value = w_value.data();
  args.b_query = w_query.bias_data();
  args.b_key = w_key.bias_data();
  args.b_value = w_value.bias_data();
  args.edge_data = data_of(edge_data);
  args.w_edge_key = data_of(w_edge_key);
  args.w_edge_value = data_of(w_edge_value);
  args.edge_bias = data_of(edge_bias);
  args.head_weights = head_weights.data(is_float64(desc));
  args.out = out->data();
  if (lse) args.lse = lse->data();
  if (weights) args.weights = weights->data();
  return args;
}

GraphOutputs GraphProblem::run(const Context& context, const Call& call) {
  for (auto* const tensor : {&out, &lse, &weights})
    if (*tensor) (*tensor)->clear();
  heed_graph_attention_args arguments = args();
  if (in_place) arguments.data = move_data_into_out();
  const std::vector<Weights> prepared = prepare(context, arguments);
  call(arguments);
  for (const auto* const tensor : {&out, &lse, &weights})
    if (*tensor && !(*tensor)->padding_intact())
      throw std::runtime_error("wrote outside an output");
  GraphOutputs outputs{out->numbers(), {}, {}};
  if (lse) outputs.lse = lse->numbers();
  if (weights) outputs.weights = weights->numbers();
  return outputs;
}

GraphOutputs GraphProblem::run(const Context& context, const Graph& graph) {
  return run(context, [&](const heed_graph_attention_args& arguments) {
    const GraphPlan plan = make_plan(context, graph, desc);
    Workspace workspace(describe(plan).workspace_bytes);
    require_ok(
        heed_graph_attention_plan_run(plan.get(), &arguments, workspace.get(), workspace.bytes()));
    if (!workspace.intact()) throw std::runtime_error("wrote outside the workspace");
  });
}

GraphOutputs GraphProblem::run(const Context& context, const GraphForm& form) {
  return run(context, make_graph(context, edges, form));
}

GraphOutputs GraphProblem::run(const char* isa) { return run(make_context(isa)); }

Tensor GraphProblem::rows_tensor(Index rows, Index heads, Index columns,
                                 std::uint32_t default_dtype, std::uint32_t dtype,
                                 Arrangement arrangement, heed_layout& layout) const {
  const bool contiguous = arrangement == Arrangement::kDefault;
  Tensor tensor =
      placed({1, heads, rows, columns}, contiguous ? Arrangement::kRowsOutside : arrangement,
             dtype_of(dtype, default_dtype), misalign);
  layout = layout_of(tensor, arrangement, dtype);
  layout.stride_batch = 0;
  return tensor;
}

Tensor GraphProblem::nodes_tensor(Index heads, Index columns, std::uint32_t dtype,
                                  Arrangement arrangement, heed_layout& layout) const {
  return rows_tensor(edges.nodes, heads, columns, HEED_DTYPE_F32, dtype, arrangement, layout);
}

Tensor GraphProblem::matrix(Index count, Index in, Index columns, std::uint32_t dtype,
                            Arrangement arrangement, heed_matrix_layout& layout) const {
  Tensor tensor = placed({count, 1, in, columns}, arrangement, dtype_of(dtype, real()), misalign);
  const Axes& s = tensor.strides();
  layout = {dtype, 0, 0, 0, 0};
  if (arrangement != Arrangement::kDefault) layout = {dtype, 0, count == 1 ? 0 : s[0], s[2], s[3]};
  return tensor;
}

const void* GraphProblem::move_data_into_out() {
  data->each([&](const Axes& at) {
    out->set({0, at[3] / width(), at[2], at[3] % width()}, data->get(at));
  });
  return out->data();
}

std::vector<Weights> GraphProblem::prepare(const Context& context,
                                           heed_graph_attention_args& a) const {
  std::vector<Weights> all;
  const auto one = [&](const Weighting& w, const heed_matrix_layout& layout, const void*& matrix,
                       const void*& bias, const heed_weights*& prepared) {
    if (!w.prepared) return;
    heed_weights_desc d = HEED_WEIGHTS_DESC_INIT;
    d.arithmetic = real();
    d.in = w.matrix->shape()[2];
    d.out = w.matrix->shape()[3];
    d.layout = layout;
    d.bias_dtype = desc.bias_dtype;
    heed_weights* made = nullptr;
    require_ok(heed_weights_create(context.get(), &d, matrix, bias, &made));
    all.emplace_back(made);
    prepared = made;
    matrix = bias = nullptr;
  };
  one(w_query, desc.w_query, a.w_query, a.b_query, a.p_query);
  one(w_key, desc.w_key, a.w_key, a.b_key, a.p_key);
  one(w_value, desc.w_value, a.w_value, a.b_value, a.p_value);
  return all;
}

std::string line_of(const GraphProblem& p) {
  constexpr const char* kInputs[] = {"projected", "shared", "per node"};
  constexpr const char* kCombine[] = {"concat", "weighted", "mean", "max"};
  const heed_graph_attention_desc& d = p.desc;
  std::ostringstream line;
  line.precision(17);
  line << "N" << p.edges.nodes << " E" << p.edges.size() << (p.edges.unique ? " unique" : "")
       << " H" << d.heads << " D" << d.features << " Dv" << d.value_features << " "
       << kInputs[d.inputs] << " " << kCombine[d.combine] << " scale " << d.scale;
  if (d.width > 0) line << " width " << d.width;
  if (d.softcap != 0) line << " softcap " << d.softcap;
  if (d.temperature != 0) line << " temperature " << d.temperature;
  if (d.hard != 0) line << " hard";
  if (d.residual != 0) line << " residual" << (p.in_place ? " in place" : "");
  if (d.steps > 1) line << " steps " << d.steps;
  line << shape_line("query", p.query, d.query) << shape_line("key", p.key, d.key)
       << shape_line("value", p.value, d.value) << shape_line("data", p.data, d.data);
  for (const Weighting* const w : {&p.w_query, &p.w_key, &p.w_value})
    if (w->matrix)
      line << " W " << name_of_dtype(w->matrix->dtype()) << (w->bias ? " + b" : "")
           << (w->prepared ? " prepared" : "");
  if (p.edge_data) line << " edge width " << d.edge_width;
  line << shape_line("edge_data", p.edge_data, d.edge_data) << (p.w_edge_key ? " edge keys" : "")
       << (p.w_edge_value ? " edge values" : "")
       << shape_line("edge_bias", p.edge_bias, d.edge_bias) << shape_line("out", p.out, d.out)
       << shape_line("lse", p.lse, d.lse) << shape_line("weights", p.weights, d.weights);
  return line.str();
}

bool same_bits(const GraphOutputs& a, const GraphOutputs& b) {
  return same_bits(a.out, b.out) && same_bits(a.lse, b.lse) && same_bits(a.weights, b.weights);
}

}  // namespace heed_test
