#include "tests/problem/graph_backward.hpp"

#include <stdexcept>

namespace heed_test {
namespace {

std::uint32_t wide_of(const GraphProblem& p) {
  return is_float64(p.desc) ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}

}  // namespace

const char* name_of(GraphGradientOf gradient) {
  constexpr const char* kNames[] = {"query",        "key",       "value",       "data",
                                    "w_query",      "w_key",     "w_value",     "b_query",
                                    "b_key",        "b_value",   "edge_data",   "w_edge_key",
                                    "w_edge_value", "edge_bias", "head_weights"};
  return kNames[gradient];
}

std::array<GraphGradientOf, kGraphGradients> all_graph_gradients() {
  std::array<GraphGradientOf, kGraphGradients> all{};
  for (std::size_t of = 0; of < kGraphGradients; ++of) all[of] = static_cast<GraphGradientOf>(of);
  return all;
}

GraphBackwardProblem::GraphBackwardProblem(GraphProblem problem, std::uint64_t seed,
                                           const Form& of_out)
    : forward(std::move(problem)),
      grad_out(forward.rows_tensor(forward.edges.nodes, out_heads_of(forward.desc),
                                   value_features_of(forward.desc), wide_of(forward), of_out.dtype,
                                   of_out.arrangement, desc_.grad_out)) {
  for (Weighting* const w : {&forward.w_query, &forward.w_key, &forward.w_value})
    w->prepared = false;
  Random random(seed);
  grad_out.fill([&] { return random.normal<double>(); });
}

void GraphBackwardProblem::give_grad_lse(std::uint64_t seed, const Form& form) {
  grad_lse.emplace(forward.rows_tensor(forward.edges.nodes, forward.desc.heads, 1, wide_of(forward),
                                       form.dtype, form.arrangement, desc_.grad_lse));
  Random random(seed);
  grad_lse->fill([&] { return random.normal<double>(); });
}

bool GraphBackwardProblem::can_want(GraphGradientOf gradient) const {
  const GraphProblem& p = forward;
  switch (gradient) {
    case kGraphQuery:
    case kGraphKey:
    case kGraphValue:
      return p.query.has_value();
    case kGraphData:
      return p.data.has_value();
    case kGraphWQuery:
    case kGraphWKey:
    case kGraphWValue:
      return p.w_query.matrix.has_value();
    case kGraphBQuery:
      return p.w_query.bias.has_value();
    case kGraphBKey:
      return p.w_key.bias.has_value();
    case kGraphBValue:
      return p.w_value.bias.has_value();
    case kGraphEdgeData:
      return p.edge_data.has_value();
    case kGraphWEdgeKey:
      return p.w_edge_key.has_value();
    case kGraphWEdgeValue:
      return p.w_edge_value.has_value();
    case kGraphEdgeBias:
      return p.edge_bias.has_value();
    default:
      return !p.head_weights.numbers.empty();
  }
}

void GraphBackwardProblem::want_rows(GraphGradientOf of, Index rows, Index heads, Index columns,
                                     const Form& form, heed_layout& layout) {
  gradients[of].emplace(forward.rows_tensor(rows, heads, columns, wide_of(forward), form.dtype,
                                            form.arrangement, layout));
}

void GraphBackwardProblem::want_matrix(GraphGradientOf of, const std::optional<Tensor>& like,
                                       const Form& form, heed_matrix_layout& layout) {
  const Axes& shape = like->shape();
  gradients[of].emplace(
      forward.matrix(shape[0], shape[2], shape[3], form.dtype, form.arrangement, layout));
}

void GraphBackwardProblem::want_vector(GraphGradientOf of, Index count, const Form& form) {
  gradients[of].emplace(
      placed({1, 1, 1, count}, Arrangement::kDefault, wide_of(forward), form.misalign));
}

void GraphBackwardProblem::want(GraphGradientOf of, const Form& form) {
  const heed_graph_attention_desc& d = forward.desc;
  const Index nodes = forward.edges.nodes;
  const Index edges = forward.edges.size();
  const Index values = value_features_of(d);
  switch (of) {
    case kGraphQuery:
      return want_rows(of, nodes, d.heads, d.features, form, desc_.grad_query);
    case kGraphKey:
      return want_rows(of, nodes, d.heads, d.features, form, desc_.grad_key);
    case kGraphValue:
      return want_rows(of, nodes, d.heads, values, form, desc_.grad_value);
    case kGraphData:
      return want_rows(of, nodes, 1, d.width, form, desc_.grad_data);
    case kGraphWQuery:
      return want_matrix(of, forward.w_query.matrix, form, desc_.grad_w_query);
    case kGraphWKey:
      return want_matrix(of, forward.w_key.matrix, form, desc_.grad_w_key);
    case kGraphWValue:
      return want_matrix(of, forward.w_value.matrix, form, desc_.grad_w_value);
    case kGraphBQuery:
    case kGraphBKey:
      return want_vector(of, d.heads * d.features, form);
    case kGraphBValue:
      return want_vector(of, d.heads * values, form);
    case kGraphEdgeData:
      return want_rows(of, edges, 1, d.edge_width, form, desc_.grad_edge_data);
    case kGraphWEdgeKey:
      return want_matrix(of, forward.w_edge_key, form, desc_.grad_w_edge_key);
    case kGraphWEdgeValue:
      return want_matrix(of, forward.w_edge_value, form, desc_.grad_w_edge_value);
    case kGraphEdgeBias: {
      const bool shared = d.heads > 1 && forward.edge_bias->strides()[1] == 0;
      return want_rows(of, edges, shared ? 1 : d.heads, 1, form, desc_.grad_edge_bias);
    }
    default:
      return want_vector(of, d.heads, form);
  }
}

void GraphBackwardProblem::want_all() {
  for (const GraphGradientOf of : all_graph_gradients())
    if (can_want(of)) want(of);
}

void GraphBackwardProblem::want_nothing() {
  for (auto& gradient : gradients) gradient.reset();
  desc_.accumulate = 0;
}

void GraphBackwardProblem::accumulate(std::uint64_t seed) {
  desc_.accumulate = 1;
  Random random(seed);
  for (std::size_t of = 0; of < kGraphGradients; ++of) {
    before_[of].reset();
    if (!gradients[of]) continue;
    before_[of].emplace(*gradients[of]);
    before_[of]->fill([&] { return random.normal<double>(); });
  }
}

const heed_graph_attention_backward_desc& GraphBackwardProblem::desc() {
  desc_.attention = &forward.desc;
  return desc_;
}

heed_graph_attention_backward_args GraphBackwardProblem::args() {
  heed_graph_attention_backward_args args = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;
  forward_args_ = forward.args();
  args.attention = &forward_args_;
  args.grad_out = grad_out.data();
  if (grad_lse) args.grad_lse = grad_lse->data();
  void** const places[] = {&args.grad_query,        &args.grad_key,       &args.grad_value,
                           &args.grad_data,         &args.grad_w_query,   &args.grad_w_key,
                           &args.grad_w_value,      &args.grad_b_query,   &args.grad_b_key,
                           &args.grad_b_value,      &args.grad_edge_data, &args.grad_w_edge_key,
                           &args.grad_w_edge_value, &args.grad_edge_bias, &args.grad_head_weights};
  for (std::size_t of = 0; of < kGraphGradients; ++of)
    if (gradients[of]) *places[of] = gradients[of]->data();
  return args;
}

void GraphBackwardProblem::begin() {
  for (std::size_t of = 0; of < kGraphGradients; ++of) {
    if (!gradients[of]) continue;
    gradients[of]->clear();
    if (desc_.accumulate != 0) gradients[of].emplace(*before_[of]);
  }
}

ExpectedGraphGradients GraphBackwardProblem::expected(Index parts) {
  begin();
  const heed_graph_attention_backward_args arguments = args();
  return expect_gradients({desc(), arguments, forward.edges}, parts);
}

GraphGradients GraphBackwardProblem::run(const Context& context, const Graph& graph) {
  const GraphBackwardPlan plan = make_plan(context, graph, desc());
  Workspace workspace(describe(plan).workspace_bytes);
  begin();
  const heed_graph_attention_backward_args arguments = args();
  require_ok(heed_graph_attention_backward_plan_run(plan.get(), &arguments, workspace.get(),
                                                    workspace.bytes()));
  if (!workspace.intact()) throw std::runtime_error("wrote outside the workspace");
  GraphGradients got;
  for (std::size_t of = 0; of < kGraphGradients; ++of) {
    if (!gradients[of]) continue;
    if (!gradients[of]->padding_intact()) throw std::runtime_error("wrote outside a gradient");
    got[of] = gradients[of]->numbers();
  }
  return got;
}

GraphGradients GraphBackwardProblem::run(const Context& context, GraphForm form) {
  form.reverse = true;
  return run(context, make_graph(context, forward.edges, form));
}

std::string line_of(const GraphBackwardProblem& p) {
  return line_of(p.forward) + line_of_gradients(p);
}

bool same_bits(const GraphGradients& a, const GraphGradients& b) {
  return std::equal(a.begin(), a.end(), b.begin(),
                    [](const Numbers& x, const Numbers& y) { return same_bits(x, y); });
}

}  // namespace heed_test
