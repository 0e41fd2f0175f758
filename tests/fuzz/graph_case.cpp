#include "tests/fuzz/graph_case.hpp"

#include <cstring>

namespace heed_test {
namespace {

void draw_options(Draw& draw, heed_graph_attention_desc& d) {
  d.heads = draw.one_in(8) ? draw.integer(1, 20) : draw.integer(1, 3);
  d.features = draw.size(1);
  d.value_features = draw.one_in(3) ? 0 : draw.size(1);
  d.inputs = draw.choice(HEED_GRAPH_PER_NODE);
  d.combine = draw.choice(HEED_COMBINE_MAX);
  d.residual = draw.choice(1);
  const std::int64_t row = out_heads_of(d) * value_features_of(d);
  if (has_data(d)) d.width = d.residual != 0 || draw.one_in(2) ? row : draw.size(1);
  if (d.inputs != HEED_GRAPH_PROJECTED && d.width == row) d.steps = draw.integer(0, 3);
  if (draw.one_in(3)) d.edge_width = draw.size(1);
  if (draw.one_in(3)) d.scale = draw.pick<double>({0.25, -0.5, 1, 1e-30});
  if (draw.one_in(4)) d.softcap = draw.pick<double>({0.5, 30, 1e4});
  if (draw.one_in(8))
    d.hard = 1;
  else if (draw.one_in(3))
    d.temperature = draw.pick<double>({0.5, 3, 1e4, kInfinity});
}

/// Calls visit(member of the problem, layout, shape, use) for the tensors that a run may have.
template <class Desc, class Visit>
void each_tensor(Desc& d, const EdgeList& edges, Visit&& visit) {
  using P = GraphProblem;
  const std::int64_t n = edges.nodes;
  const std::int64_t e = edges.size();
  const std::int64_t values = value_features_of(d);
  if (d.inputs == HEED_GRAPH_PROJECTED) {
    visit(&P::query, d.query, Axes{1, d.heads, n, d.features}, Use::kRead);
    visit(&P::key, d.key, Axes{1, d.heads, n, d.features}, Use::kRead);
    visit(&P::value, d.value, Axes{1, d.heads, n, values}, Use::kRead);
  }
  if (has_data(d)) visit(&P::data, d.data, Axes{1, 1, n, d.width}, Use::kRead);
  if (d.edge_width > 0) visit(&P::edge_data, d.edge_data, Axes{1, 1, e, d.edge_width}, Use::kRead);
  visit(&P::edge_bias, d.edge_bias, Axes{1, d.heads, e, 1}, Use::kRead);
  visit(&P::out, d.out, Axes{1, out_heads_of(d), n, values}, Use::kWritten);
  visit(&P::lse, d.lse, Axes{1, d.heads, n, 1}, Use::kWritten);
  visit(&P::weights, d.weights, Axes{1, d.heads, e, 1}, Use::kWritten);
}

/// What heed takes a type of 0 for, spelled out for the oracle.
heed_graph_attention_desc spelled(heed_graph_attention_desc d) {
  for (heed_layout* const layout :
       {&d.query, &d.key, &d.value, &d.data, &d.edge_data, &d.edge_bias, &d.lse, &d.weights})
    if (layout->dtype == HEED_DTYPE_DEFAULT) layout->dtype = real_of(d);
  return d;
}

}  // namespace

heed_graph_attention_desc draw_graph_attention(Draw& draw, const EdgeList& edges) {
  heed_graph_attention_desc d = HEED_GRAPH_ATTENTION_DESC_INIT;
  const bool float64 = draw.one_in(4);
  draw_options(draw, d);
  const auto type = [&] { return draw.dtype(float64, true); };
  each_tensor(d, edges, [&](auto member, heed_layout& layout, const Axes& shape, Use use) {
    const bool per_edge = member == &GraphProblem::edge_bias || member == &GraphProblem::weights;
    const std::uint32_t dtype =
        member == &GraphProblem::out ? draw.dtype(float64, false)
        : member == &GraphProblem::lse
            ? draw.pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64})
        : per_edge ? draw.dtype()
                   : type();
    layout = draw.layout(shape, use, dtype);
    layout.stride_batch = 0;
  });
  const std::int64_t values = value_features_of(d);
  const auto matrix = [&](std::int64_t count, std::int64_t in, std::int64_t out) {
    return draw.matrix_layout(count, in, out, type());
  };
  const std::int64_t count = d.inputs == HEED_GRAPH_PER_NODE ? std::max<Index>(edges.nodes, 1) : 0;
  if (d.inputs != HEED_GRAPH_PROJECTED) {
    d.w_query = matrix(count, d.width, d.heads * d.features);
    d.w_key = matrix(count, d.width, d.heads * d.features);
    d.w_value = matrix(count, d.width, d.heads * values);
  }
  if (d.inputs == HEED_GRAPH_SHARED) d.bias_dtype = type();
  if (d.edge_width > 0) {
    d.w_edge_key = matrix(0, d.edge_width, d.heads * d.features);
    d.w_edge_value = matrix(0, d.edge_width, d.heads * values);
  }
  return d;
}

GraphCase::GraphCase(const EdgeList& edges, const heed_graph_attention_desc& d)
    : problem_(edges, d.heads, d.features, d.value_features), d_(d) {
  problem_.desc = spelled(d);
  const std::int64_t values = value_features_of(d);
  const std::int64_t n = edges.nodes;
  each_tensor(d, edges, [&](auto member, const heed_layout& layout, const Axes& shape, Use use) {
    const bool out = member == &GraphProblem::out;
    const Extent extent(shape, layout, out ? HEED_DTYPE_F32 : real_of(d), true);
    places_.push_back({&(problem_.*member), extent, use});
  });
  const bool per_node = d.inputs == HEED_GRAPH_PER_NODE;
  const auto matrix = [&](std::int64_t matrices, std::int64_t in, std::int64_t out,
                          const heed_matrix_layout& layout) {
    matrices_.emplace_back(matrices, in, out, layout, real_of(d), d.bias_dtype);
  };
  if (d.inputs != HEED_GRAPH_PROJECTED && !(per_node && n == 0)) {
    matrix(per_node ? n : 0, d.width, d.heads * d.features, d.w_query);
    matrix(per_node ? n : 0, d.width, d.heads * d.features, d.w_key);
    matrix(per_node ? n : 0, d.width, d.heads * values, d.w_value);
  }
  if (d.edge_width > 0) {
    edge_matrices_.emplace_back(0, d.edge_width, d.heads * d.features, d.w_edge_key, real_of(d), 0);
    edge_matrices_.emplace_back(0, d.edge_width, d.heads * values, d.w_edge_value, real_of(d), 0);
  }
}

bool GraphCase::small() {
  bool small = true;
  for (const Place& place : places_) small = check_extent(place.extent) && small;
  for (const FuzzMatrix& matrix : matrices_) small = matrix.small() && small;
  for (const FuzzMatrix& matrix : edge_matrices_) small = matrix.small() && small;
  Wide128 work = (problem_.edges.size() + problem_.edges.nodes + 1) * Wide128{d_.heads};
  work *= d_.features + value_features_of(d_);
  work *= d_.steps == 0 ? 1 : d_.steps;
  work *= 1 + d_.width + d_.edge_width;
  if (!small || work > kMostWork) return false;
  for (const Place& place : places_)
    if (place.use == Use::kWritten)
      demand(place.extent.apart(), "an output whose elements overlap is accepted");
  return true;
}

void GraphCase::make(Draw& draw, bool may_prepare) {
  for (const Place& place : places_)
    *place.tensor = place.extent.tensor(static_cast<std::size_t>(draw.integer(0, 2)));
  if (!draw.one_in(3)) problem_.edge_bias.reset();
  if (d_.hard != 0 || !draw.one_in(2)) problem_.lse.reset();
  if (!draw.one_in(2)) problem_.weights.reset();
  if (d_.combine == HEED_COMBINE_WEIGHTED)
    problem_.head_weights.numbers.resize(static_cast<std::size_t>(d_.heads));
  problem_.fill(draw.bits(), draw.pick<double>({1, 0.1, 3}));
  if (problem_.edge_bias && draw.one_in(3))
    problem_.edge_bias->fill([&] { return draw.one_in(3) ? -kInfinity : 0.5; });
  if (problem_.query && draw.one_in(8))
    draw.plant({&*problem_.query, &*problem_.key, &*problem_.value});
  for (FuzzMatrix& matrix : matrices_) {
    matrix.make(draw);
    if (may_prepare && d_.inputs == HEED_GRAPH_SHARED && draw.one_in(4)) matrix.prepare();
  }
  const std::uint32_t edges_to = draw.choice(2);
  for (FuzzMatrix& matrix : edge_matrices_) matrix.make(draw);
  edge_keys_ = edges_to != 1;
  edge_values_ = edges_to != 2;
}

heed_graph_attention_args GraphCase::args(bool plain) {
  heed_graph_attention_args a = problem_.args();
  if (matrices_.size() == 3) {
    matrices_[0].give(a.w_query, a.b_query, a.p_query, plain);
    matrices_[1].give(a.w_key, a.b_key, a.p_key, plain);
    matrices_[2].give(a.w_value, a.b_value, a.p_value, plain);
    if (d_.inputs != HEED_GRAPH_SHARED) a.b_query = a.b_key = a.b_value = nullptr;
  }
  if (d_.edge_width > 0 && edge_keys_) a.w_edge_key = edge_matrices_[0].matrix();
  if (d_.edge_width > 0 && edge_values_) a.w_edge_value = edge_matrices_[1].matrix();
  return a;
}

heed_graph_attention_args GraphCase::given(const heed_graph_attention_args& run) {
  heed_graph_attention_args a = args(true);
  // What the run did not get.
  if (run.edge_bias == nullptr) a.edge_bias = nullptr;
  if (run.w_edge_key == nullptr) a.w_edge_key = nullptr;
  if (run.w_edge_value == nullptr) a.w_edge_value = nullptr;
  if (run.p_query == nullptr && run.b_query == nullptr) a.b_query = nullptr;
  if (run.p_key == nullptr && run.b_key == nullptr) a.b_key = nullptr;
  if (run.p_value == nullptr && run.b_value == nullptr) a.b_value = nullptr;
  return a;
}

bool GraphCase::may_lie_in_place() const {
  return problem_.data && std::memcmp(&d_.data, &d_.out, sizeof d_.out) == 0 &&
         out_heads_of(d_) == 1 && d_.width == value_features_of(d_);
}

void GraphCase::check_untouched(bool in_place) const {
  for (const Place& place : places_)
    if (place.use == Use::kWritten && *place.tensor && !(in_place && place.tensor == &problem_.out))
      heed_test::check_untouched(**place.tensor);
}

}  // namespace heed_test
