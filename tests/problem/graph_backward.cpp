#include "tests/problem/graph_backward.hpp"

#include <algorithm>
#include <stdexcept>

namespace heed_test {
namespace {

using Desc = heed_graph_attention_backward_desc;
using Args = heed_graph_attention_backward_args;

constexpr GraphGradientPlace kPlaces[] = {
    {&Desc::grad_query, nullptr, &Args::grad_query},
    {&Desc::grad_key, nullptr, &Args::grad_key},
    {&Desc::grad_value, nullptr, &Args::grad_value},
    {&Desc::grad_data, nullptr, &Args::grad_data},
    {nullptr, &Desc::grad_w_query, &Args::grad_w_query},
    {nullptr, &Desc::grad_w_key, &Args::grad_w_key},
    {nullptr, &Desc::grad_w_value, &Args::grad_w_value},
    {nullptr, nullptr, &Args::grad_b_query},
    {nullptr, nullptr, &Args::grad_b_key},
    {nullptr, nullptr, &Args::grad_b_value},
    {&Desc::grad_edge_data, nullptr, &Args::grad_edge_data},
    {nullptr, &Desc::grad_w_edge_key, &Args::grad_w_edge_key},
    {nullptr, &Desc::grad_w_edge_value, &Args::grad_w_edge_value},
    {&Desc::grad_edge_bias, nullptr, &Args::grad_edge_bias},
    {nullptr, nullptr, &Args::grad_head_weights}};
static_assert(std::size(kPlaces) == kGraphGradients);

/// Strides that are all 0 are those of contiguous ones, unless they are explicit.
bool shares_bias(const heed_graph_attention_desc& d) {
  const heed_layout& bias = d.edge_bias;
  const bool stands = bias.reserved == HEED_STRIDES_EXPLICIT || bias.stride_batch != 0 ||
                      bias.stride_row != 0 || bias.stride_feature != 0;
  return d.heads > 1 && bias.stride_head == 0 && stands;
}

}  // namespace

const char* name_of(GraphGradientOf gradient) { return graph_tensor(gradient).name; }

std::array<GraphGradientOf, kGraphGradients> all_graph_gradients() {
  std::array<GraphGradientOf, kGraphGradients> all{};
  for (std::size_t of = 0; of < kGraphGradients; ++of) all[of] = static_cast<GraphGradientOf>(of);
  return all;
}

const GraphGradientPlace& gradient_place(std::size_t of) { return kPlaces[of]; }

Axes gradient_shape_of(const heed_graph_attention_desc& d, const EdgeList& edges, std::size_t of) {
  Axes shape = shape_of(d, edges, of);
  if (of == kGraphEdgeBias && shares_bias(d)) shape[1] = 1;
  return shape;
}

Extent gradient_extent_of(const Desc& desc, const heed_graph_attention_desc& d,
                          const EdgeList& edges, std::size_t of) {
  const GraphGradientPlace& place = gradient_place(of);
  heed_layout layout = HEED_LAYOUT_INIT;
  if (place.rows != nullptr) layout = desc.*place.rows;
  if (place.matrix != nullptr) layout = rows_of(desc.*place.matrix);
  return {gradient_shape_of(d, edges, of), layout, real_dtype(d), place.rows != nullptr};
}

std::array<Extent, 2> given_extents_of(const Desc& desc, const heed_graph_attention_desc& d,
                                       const EdgeList& edges) {
  return {Extent(shape_of(d, edges, kGraphOut), desc.grad_out, real_dtype(d), true),
          Extent(shape_of(d, edges, kGraphLse), desc.grad_lse, real_dtype(d), true)};
}

GraphBackwardProblem::GraphBackwardProblem(GraphProblem problem, std::uint64_t seed,
                                           const Desc& described)
    : forward(std::move(problem)),
      desc_(described),
      grad_out(given_extents_of(desc_, forward.desc, forward.edges)[0].tensor(forward.misalign)) {
  forward.prepared = {};
  forward.in_place = false;
  fill_normally(grad_out, seed);
}

void GraphBackwardProblem::give_grad_lse(std::uint64_t seed) {
  grad_lse.emplace(
      given_extents_of(desc_, forward.desc, forward.edges)[1].tensor(forward.misalign));
  fill_normally(*grad_lse, seed);
}

void GraphBackwardProblem::want_as_described(GraphGradientOf of) {
  const Extent extent = gradient_extent_of(desc_, forward.desc, forward.edges, of);
  gradients[of].emplace(extent.tensor((forward.misalign + of) % 4));
}

void GraphBackwardProblem::want(GraphGradientOf of, const Form& form) {
  const GraphGradientPlace& place = gradient_place(of);
  Axes s{};
  if (form.arrangement != Arrangement::kDefault)
    s = strides_of(form.arrangement, gradient_shape_of(forward.desc, forward.edges, of));
  if (place.rows != nullptr) desc_.*place.rows = {form.dtype, 0, 0, s[1], s[2], s[3]};
  const bool own = forward.desc.inputs == HEED_GRAPH_PER_NODE && of <= kGraphWValue;
  if (place.matrix != nullptr) desc_.*place.matrix = {form.dtype, 0, own ? s[0] : 0, s[2], s[3]};
  want_as_described(of);
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
  for (std::size_t of = 0; of < kGraphGradients; ++of) {
    before_[of].reset();
    if (!gradients[of]) continue;
    before_[of].emplace(*gradients[of]);
    fill_normally(*before_[of], seed + of);
  }
}

const Desc& GraphBackwardProblem::desc() {
  desc_.attention = &forward.desc;
  return desc_;
}

Args GraphBackwardProblem::args() {
  Args args = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;
  forward_args_ = forward.args();
  args.attention = &forward_args_;
  args.grad_out = grad_out.data();
  if (grad_lse) args.grad_lse = grad_lse->data();
  for (std::size_t of = 0; of < kGraphGradients; ++of)
    if (gradients[of]) args.*gradient_place(of).pointer = gradients[of]->data();
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
  const Args arguments = args();
  return expect_gradients({desc(), arguments, forward.edges}, parts);
}

GraphGradients GraphBackwardProblem::outputs() const {
  GraphGradients all;
  for (std::size_t of = 0; of < kGraphGradients; ++of)
    if (gradients[of]) all[of] = gradients[of]->numbers();
  return all;
}

GraphGradients GraphBackwardProblem::run(const Call& call) {
  begin();
  const GraphOutputs of_attention = forward.outputs();
  call(args());
  if (!same_bits(forward.outputs(), of_attention))
    throw std::runtime_error("wrote an output of attention");
  for (const std::optional<Tensor>& gradient : gradients)
    if (gradient && !gradient->padding_intact())
      throw std::runtime_error("wrote outside a gradient");
  return outputs();
}

GraphGradients GraphBackwardProblem::run(const Context& context, const Graph& graph) {
  return run([&](const Args& arguments) {
    const GraphBackwardPlan plan = make_plan(context, graph, desc());
    Workspace workspace(describe(plan).workspace_bytes);
    require_ok(heed_graph_attention_backward_plan_run(plan.get(), &arguments, workspace.get(),
                                                      workspace.bytes()));
    if (!workspace.intact()) throw std::runtime_error("wrote outside the workspace");
  });
}

GraphGradients GraphBackwardProblem::run(const Context& context, GraphForm form) {
  form.reverse = true;
  return run(context, make_graph(context, forward.edges, form));
}

std::string line_of(const GraphBackwardProblem& p) {
  return line_of(p.forward) + line_of_gradients(p);
}

}  // namespace heed_test
