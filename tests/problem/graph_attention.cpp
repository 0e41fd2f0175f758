#include "tests/problem/graph_attention.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace heed_test {
namespace {

using Desc = heed_graph_attention_desc;
using Args = heed_graph_attention_args;
using BackwardArgs = heed_graph_attention_backward_args;
using P = GraphProblem;

bool always(const Desc&) { return true; }
bool projected(const Desc& d) { return d.inputs == HEED_GRAPH_PROJECTED; }
bool made(const Desc& d) { return d.inputs != HEED_GRAPH_PROJECTED; }
bool shared(const Desc& d) { return d.inputs == HEED_GRAPH_SHARED; }
bool has_data(const Desc& d) { return made(d) || d.residual != 0; }
bool has_edge_data(const Desc& d) { return d.edge_width > 0; }
bool adds_to_keys(const Desc& d) { return has_edge_data(d) && d.score != HEED_SCORE_COSINE; }
bool weighs_scores(const Desc& d) { return d.score >= HEED_SCORE_ADDITIVE; }
bool weighted(const Desc& d) { return d.combine == HEED_COMBINE_WEIGHTED; }

constexpr bool kNeeded = true;
constexpr bool kMayMiss = false;

constexpr GraphTensor kTensors[] = {
    {"query", &P::query, &Desc::query, nullptr, &Args::query, nullptr, projected, kNeeded},
    {"key", &P::key, &Desc::key, nullptr, &Args::key, nullptr, projected, kNeeded},
    {"value", &P::value, &Desc::value, nullptr, &Args::value, nullptr, projected, kNeeded},
    {"data", &P::data, &Desc::data, nullptr, &Args::data, nullptr, has_data, kNeeded},
    {"w_query", &P::w_query, nullptr, &Desc::w_query, &Args::w_query, nullptr, made, kNeeded},
    {"w_key", &P::w_key, nullptr, &Desc::w_key, &Args::w_key, nullptr, made, kNeeded},
    {"w_value", &P::w_value, nullptr, &Desc::w_value, &Args::w_value, nullptr, made, kNeeded},
    {"b_query", &P::b_query, nullptr, nullptr, &Args::b_query, nullptr, shared, kMayMiss},
    {"b_key", &P::b_key, nullptr, nullptr, &Args::b_key, nullptr, shared, kMayMiss},
    {"b_value", &P::b_value, nullptr, nullptr, &Args::b_value, nullptr, shared, kMayMiss},
    {"edge_data", &P::edge_data, &Desc::edge_data, nullptr, &Args::edge_data, nullptr,
     has_edge_data, kNeeded},
    {"w_edge_key", &P::w_edge_key, nullptr, &Desc::w_edge_key, &Args::w_edge_key, nullptr,
     adds_to_keys, kMayMiss},
    {"w_edge_value", &P::w_edge_value, nullptr, &Desc::w_edge_value, &Args::w_edge_value, nullptr,
     has_edge_data, kMayMiss},
    {"edge_bias", &P::edge_bias, &Desc::edge_bias, nullptr, &Args::edge_bias, nullptr, always,
     kMayMiss},
    {"head_weights", &P::head_weights, nullptr, nullptr, &Args::head_weights, nullptr, weighted,
     kNeeded},
    {"score_weights", &P::score_weights, nullptr, nullptr, &Args::score_weights, nullptr,
     weighs_scores, kNeeded},
    {"out", &P::out, &Desc::out, nullptr, nullptr, &Args::out, always, kNeeded},
    {"lse", &P::lse, &Desc::lse, nullptr, nullptr, &Args::lse, always, kMayMiss},
    {"weights", &P::weights, &Desc::weights, nullptr, nullptr, &Args::weights, always, kMayMiss}};
static_assert(std::size(kTensors) == kGraphTensors);

/// Strides that are all 0 are those of contiguous ones, unless they are explicit.
bool shares_bias(const heed_graph_attention_desc& d) {
  const heed_layout& bias = d.edge_bias;
  const bool stands = bias.reserved == HEED_STRIDES_EXPLICIT || bias.stride_batch != 0 ||
                      bias.stride_row != 0 || bias.stride_feature != 0;
  return d.heads > 1 && bias.stride_head == 0 && stands;
}

/// Gradients take matrices that are not prepared, and need data beside out.
GraphProblem as_it_is(GraphProblem problem) {
  problem.prepared = {};
  problem.in_place = false;
  return problem;
}

}  // namespace

// ---- Graphs ----

GraphArrays::GraphArrays(const EdgeList& edges, const GraphForm& form)
    : sources(edges.sources), ends(edges.destinations), rows_(form.rows) {
  if (form.rows) {
    ends.assign(static_cast<std::size_t>(edges.nodes) + 1, 0);
    for (const Index n : edges.destinations) ++ends[static_cast<std::size_t>(n) + 1];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
  }
  desc_.index_type = form.index_type;
  desc_.nodes = edges.nodes;
  desc_.edges = edges.size();
  desc_.duplicates = edges.unique ? HEED_DUPLICATES_REMOVE : HEED_DUPLICATES_KEEP;
  if (edges.unique != form.rows) desc_.duplicates = HEED_DUPLICATES_DEFAULT;
  desc_.reverse = form.reverse ? 1 : 0;
  desc_.source_nodes = edges.source_nodes;
}

heed_graph_desc GraphArrays::desc() {
  const auto place = [&](const std::vector<std::int64_t>& wide, std::vector<std::int32_t>& narrow) {
    if (desc_.index_type == HEED_INDEX_I64) return static_cast<const void*>(wide.data());
    narrow.assign(wide.begin(), wide.end());
    return static_cast<const void*>(narrow.data());
  };
  desc_.sources = place(sources, narrow_sources_);
  (rows_ ? desc_.offsets : desc_.destinations) = place(ends, narrow_ends_);
  return desc_;
}

Graph make_graph(const Context& context, const EdgeList& edges, const GraphForm& form) {
  GraphArrays arrays(edges, form);
  const heed_graph_desc desc = arrays.desc();
  return create<heed_graph>(context.get(), &desc);
}

EdgeList reordered(const EdgeList& edges, const std::vector<std::size_t>& order) {
  EdgeList result{edges.nodes, {}, {}, edges.unique, edges.source_nodes};
  for (const std::size_t e : order) result.add(edges.sources[e], edges.destinations[e]);
  return result;
}

std::vector<std::size_t> random_order(std::size_t n, Random& random) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.bits() % i]);
  return order;
}

EdgeList by_destination(const EdgeList& edges) {
  std::vector<std::size_t> order(edges.sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::make_pair(edges.destinations[a], a) < std::make_pair(edges.destinations[b], b);
  });
  return reordered(edges, order);
}

EdgeList random_edges(Index nodes, Index edges, std::uint64_t seed) {
  EdgeList list{nodes, {}, {}, false};
  Random random(seed);
  for (Index e = 0; e < edges; ++e)
    list.add(random.integer(0, nodes - 1), random.integer(0, nodes - 1));
  return list;
}

EdgeList complete_graph(Index nodes) {
  EdgeList list{nodes, {}, {}, false};
  for (Index n = 0; n < nodes; ++n)
    for (Index m = 0; m < nodes; ++m) list.add(m, n);
  return list;
}

EdgeList hub_graph(Index nodes, Index edges, Index hub, std::uint64_t seed) {
  EdgeList list{nodes, {}, {}, false};
  Random random(seed);
  for (Index e = 0; e < edges; ++e) {
    const Index n = random.integer(0, 19) == 0 ? random.integer(0, nodes - 1) : hub;
    list.add(random.integer(0, nodes - 1), n);
  }
  return list;
}

// ---- Attention over them ----

const GraphTensor& graph_tensor(std::size_t of) { return kTensors[of]; }

bool has(const Desc& d, std::size_t of) { return graph_tensor(of).in(d); }

Axes shape_of(const Desc& d, const EdgeList& edges, std::size_t of) {
  const Index n = edges.nodes;
  const Index values = value_features_of(d);
  const Index matrices = d.inputs == HEED_GRAPH_PER_NODE ? n : 1;
  switch (of) {
    case kGraphQuery:
      return {1, d.heads, n, d.features};
    case kGraphKey:
      return {1, d.heads, sources_of(edges), d.features};
    case kGraphValue:
      return {1, d.heads, sources_of(edges), values};
    case kGraphData:
      return {1, 1, n, d.width};
    case kGraphWQuery:
    case kGraphWKey:
      return {matrices, 1, d.width, d.heads * d.features};
    case kGraphWValue:
      return {matrices, 1, d.width, d.heads * values};
    case kGraphBQuery:
    case kGraphBKey:
      return {1, 1, 1, d.heads * d.features};
    case kGraphBValue:
      return {1, 1, 1, d.heads * values};
    case kGraphEdgeData:
      return {1, 1, edges.size(), d.edge_width};
    case kGraphWEdgeKey:
      return {1, 1, d.edge_width, d.heads * d.features};
    case kGraphWEdgeValue:
      return {1, 1, d.edge_width, d.heads * values};
    case kGraphScoreWeights:
      return {1, 1, 1, d.heads * (d.score == HEED_SCORE_COSINE ? 1 : d.features)};
    case kGraphHeadWeights:
      return {1, 1, 1, d.heads};
    case kGraphOut:
      return {1, out_heads_of(d), n, values};
    case kGraphLse:
      return {1, d.heads, n, 1};
    default:  // biases and weights of edges
      return {1, d.heads, edges.size(), 1};
  }
}

LaidOut laid_out(heed_matrix_layout& layout, const Desc& d, const EdgeList& edges, std::size_t of,
                 Use use) {
  const LaidOut laid(layout, shape_of(d, edges, of), real_dtype(d), use);
  return has_own(d, of) ? laid : laid.without(0);
}

LaidOut laid_out(Desc& d, const EdgeList& edges, std::size_t of) {
  const GraphTensor& tensor = graph_tensor(of);
  const Axes shape = shape_of(d, edges, of);
  const Use use = of < kGraphOut ? Use::kRead : Use::kWritten;
  const std::uint32_t real = of == kGraphOut ? std::uint32_t{HEED_DTYPE_F32} : real_dtype(d);
  if (tensor.rows != nullptr) return LaidOut(d.*tensor.rows, shape, real, use, true).without(0);
  if (tensor.matrix != nullptr) return laid_out(d.*tensor.matrix, d, edges, of, use);
  const bool typed = of >= kGraphBQuery && of <= kGraphBValue;
  return LaidOut(shape[3], typed ? &d.bias_dtype : nullptr, real, use);
}

Desc graph_desc(Index heads, Index features, Index value_features, const Types& types) {
  Desc d = HEED_GRAPH_ATTENTION_DESC_INIT;
  d.heads = heads;
  d.features = features;
  d.value_features = value_features;
  set_types(d, types);
  return d;
}

void set_types(Desc& d, const Types& types) {
  for (std::size_t of = 0; of <= kGraphOut; ++of) {
    if (!has(d, of) || of == kGraphEdgeBias) continue;
    const std::uint32_t dtype = of == kGraphKey     ? types.key
                                : of == kGraphValue ? types.value
                                : of == kGraphOut   ? types.out
                                                    : types.query;
    if (graph_tensor(of).rows != nullptr) (d.*graph_tensor(of).rows).dtype = dtype;
    if (graph_tensor(of).matrix != nullptr) (d.*graph_tensor(of).matrix).dtype = dtype;
  }
}

GraphProblem::GraphProblem(EdgeList graph, const Desc& described, std::size_t misaligned)
    : edges(std::move(graph)), desc(described), misalign(misaligned) {
  for (std::size_t of = 0; of < kGraphTensors; ++of)
    if (has(desc, of) && graph_tensor(of).needed &&
        (of != kGraphScoreWeights || desc.score == HEED_SCORE_ADDITIVE))
      add({of});
}

void GraphProblem::add(std::initializer_list<std::size_t> all) {
  for (const std::size_t of : all) at(of).emplace(laid_out(desc, edges, of).tensor(misalign));
}

void GraphProblem::fill(std::uint64_t seed, double amplitude) {
  Random random(seed);
  for (std::size_t of = 0; of < kGraphOut; ++of) {
    if (!at(of)) continue;
    const auto rows = static_cast<double>(at(of)->shape()[2]);
    // Sums of one number over and over grow faster.
    const double in = at(of)->strides()[2] == 0 ? rows * rows : rows;
    const bool of_edges = of == kGraphWEdgeKey || of == kGraphWEdgeValue;
    const double size = of == kGraphHeadWeights              ? 1
                        : graph_tensor(of).matrix != nullptr ? (of_edges ? 0.5 : 1) / std::sqrt(in)
                        : graph_tensor(of).rows == nullptr   ? amplitude / 2
                                                             : amplitude;
    at(of)->fill([&] { return random.normal<double>() * size; });
  }
}

bool GraphProblem::may_lie_in_place() const {
  if (!data || data->dtype() != out->dtype()) return false;
  const auto [batch, heads, rows, values] = out->shape();
  const Axes& from = data->strides();
  const Axes& to = out->strides();
  const auto alike = [](Index size, Index a, Index b) { return size <= 1 || a == b; };
  return data->shape()[3] == heads * values && alike(rows, from[2], to[2]) &&
         alike(values, from[3], to[3]) && alike(heads, values * from[3], to[1]);
}

GraphGiven GraphProblem::given(Index first_nodes) const {
  GraphGiven given{desc, edges, {}, first_nodes, dropout_seed, dropout_offset};
  if (!dropout_edges.empty()) given.dropout_edges = dropout_edges.data();
  for (std::size_t of = 0; of < kGraphOut; ++of)
    if (at(of)) given.inputs[of] = at(of)->source();
  return given;
}

Args GraphProblem::args() {
  Args args = HEED_GRAPH_ATTENTION_ARGS_INIT;
  for (std::size_t of = 0; of < kGraphTensors; ++of) {
    if (!at(of)) continue;
    if (of < kGraphOut) args.*graph_tensor(of).input = at(of)->data();
    if (of >= kGraphOut) args.*graph_tensor(of).output = at(of)->data();
  }
  args.dropout_seed = dropout_seed;
  args.dropout_offset = dropout_offset;
  if (!dropout_edges.empty()) args.dropout_edges = dropout_edges.data();
  return args;
}

Outputs GraphProblem::outputs() const {
  return {numbers_of(out), numbers_of(lse), numbers_of(weights)};
}

Outputs GraphProblem::run(const Context& context, const Call& call) {
  for (auto* const tensor : {&out, &lse, &weights})
    if (*tensor) (*tensor)->clear();
  Args arguments = args();
  if (in_place) arguments.data = move_data_into_out();
  const std::vector<Weights> made = prepare(context, arguments);
  call(arguments);
  for (const auto* const tensor : {&out, &lse, &weights})
    if (*tensor && !(*tensor)->padding_intact())
      throw std::runtime_error("wrote outside an output");
  return outputs();
}

Outputs GraphProblem::run(const Context& context, const Graph& graph) {
  return run(context,
             [&](const Args& arguments) { run_plan(make_plan(context, graph, desc), arguments); });
}

Outputs GraphProblem::run(const Context& context, const GraphForm& handed_in) {
  return run(context, make_graph(context, edges, handed_in));
}

const void* GraphProblem::move_data_into_out() {
  const Index width = value_features_of(desc);
  data->each([&](const Axes& from) {
    out->set({0, from[3] / width, from[2], from[3] % width}, data->get(from));
  });
  return out->data();
}

std::vector<Weights> GraphProblem::prepare(const Context& context, Args& a) const {
  constexpr const heed_weights* Args::*kPrepared[] = {&Args::p_query, &Args::p_key, &Args::p_value};
  std::vector<Weights> all;
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    if (!prepared[i]) continue;
    const GraphTensor& w = graph_tensor(kGraphWQuery + i);
    const GraphTensor& b = graph_tensor(kGraphBQuery + i);
    heed_weights_desc d = HEED_WEIGHTS_DESC_INIT;
    d.arithmetic = real_dtype(desc);
    d.in = at(kGraphWQuery + i)->shape()[2];
    d.out = at(kGraphWQuery + i)->shape()[3];
    d.layout = desc.*w.matrix;
    d.bias_dtype = desc.bias_dtype;
    all.push_back(create<heed_weights>(context.get(), &d, a.*w.input, a.*b.input));
    a.*kPrepared[i] = all.back().get();
    a.*w.input = a.*b.input = nullptr;
  }
  return all;
}

std::string line_of(const GraphProblem& p) {
  constexpr const char* kInputs[] = {"projected", "shared", "per node"};
  constexpr const char* kCombine[] = {"concat", "weighted", "mean", "max"};
  const Desc& d = p.desc;
  std::ostringstream line;
  line.precision(17);
  line << "N" << p.edges.nodes << " E" << p.edges.size() << (p.edges.unique ? " unique" : "")
       << (p.form.rows ? " rows" : " list");
  if (p.edges.source_nodes > 0) line << " sources " << p.edges.source_nodes;
  line << " H" << d.heads << " D" << d.features << " Dv" << d.value_features << " "
       << kInputs[d.inputs] << " " << kCombine[d.combine] << " scale " << d.scale;
  constexpr const char* kScores[] = {"", " sum", " additive", " cosine"};
  constexpr const char* kActivations[] = {"", " of leaky ReLU", " of tanh"};
  line << kScores[d.score] << kActivations[d.activation];
  if (d.slope != 0) line << " slope " << d.slope;
  if (d.width > 0) line << " width " << d.width;
  if (d.edge_width > 0) line << " edge width " << d.edge_width;
  if (d.softcap != 0) line << " softcap " << d.softcap;
  if (d.temperature != 0) line << " temperature " << d.temperature;
  if (d.hard != 0) line << " hard";
  if (d.dropout != 0)
    line << " dropout " << d.dropout << " of " << p.dropout_seed << ", " << p.dropout_offset
         << (p.dropout_edges.empty() ? "" : " by numbers");
  if (d.residual != 0) line << " residual";
  if (p.in_place) line << " in place";
  if (d.steps > 1) line << " steps " << d.steps;
  for (std::size_t of = 0; of < kGraphTensors; ++of) {
    const std::optional<Tensor>& tensor = p.at(of);
    if (!tensor) continue;
    line << " " << graph_tensor(of).name << " " << name_of_dtype(tensor->dtype());
    const bool matrix = of >= kGraphWQuery && of <= kGraphWValue;
    if (matrix && p.prepared[of - kGraphWQuery]) line << " prepared";
    const Axes& s = tensor->strides();
    line << " (" << s[0] << "," << s[1] << "," << s[2] << "," << s[3] << ")";
  }
  return line.str();
}

LaidOutGradients<kGraphGradients> laid_out(heed_graph_attention_backward_desc& d,
                                           const EdgeList& edges) {
  const heed_graph_attention_desc& a = *d.attention;
  const auto rows = [&](heed_layout& layout, std::size_t of, Use use) {
    Axes shape = shape_of(a, edges, of);
    if (of == kGraphEdgeBias && shares_bias(a)) shape[1] = 1;
    return LaidOut(layout, shape, real_dtype(a), use, true).without(0);
  };
  LaidOutGradients<kGraphGradients> all = {rows(d.grad_out, kGraphOut, Use::kRead),
                                           rows(d.grad_lse, kGraphLse, Use::kRead)};
  const auto of_rows = [&](std::size_t of, heed_layout& layout) {
    if (has(a, of)) all.of[of] = rows(layout, of, Use::kWritten);
  };
  of_rows(kGraphQuery, d.grad_query);
  of_rows(kGraphKey, d.grad_key);
  of_rows(kGraphValue, d.grad_value);
  of_rows(kGraphData, d.grad_data);
  of_rows(kGraphEdgeData, d.grad_edge_data);
  of_rows(kGraphEdgeBias, d.grad_edge_bias);
  const auto of_matrix = [&](std::size_t of, heed_matrix_layout& layout) {
    if (has(a, of)) all.of[of] = laid_out(layout, a, edges, of, Use::kWritten);
  };
  of_matrix(kGraphWQuery, d.grad_w_query);
  of_matrix(kGraphWKey, d.grad_w_key);
  of_matrix(kGraphWValue, d.grad_w_value);
  of_matrix(kGraphWEdgeKey, d.grad_w_edge_key);
  of_matrix(kGraphWEdgeValue, d.grad_w_edge_value);
  for (const std::size_t of :
       {kGraphBQuery, kGraphBKey, kGraphBValue, kGraphHeadWeights, kGraphScoreWeights})
    if (has(a, of))
      all.of[of] = LaidOut(shape_of(a, edges, of)[3], nullptr, real_dtype(a), Use::kWritten);
  return all;
}

GraphBackwardProblem::GraphBackwardProblem(GraphProblem problem, std::uint64_t seed,
                                           const Form& of_out)
    : GraphBackwardProblem(std::move(problem), HEED_GRAPH_ATTENTION_BACKWARD_DESC_INIT) {
  give_grad_out(seed, of_out);
}

GraphBackwardProblem::GraphBackwardProblem(GraphProblem problem,
                                           const heed_graph_attention_backward_desc& desc)
    : GradientProblem(desc), forward(as_it_is(std::move(problem))) {}

LaidOutGradients<kGraphGradients> GraphBackwardProblem::laid_out() {
  desc();
  return heed_test::laid_out(desc_, forward.edges);
}

const heed_graph_attention_backward_desc& GraphBackwardProblem::desc() {
  desc_.attention = &forward.desc;
  return desc_;
}

heed_graph_attention_backward_args GraphBackwardProblem::args() {
  BackwardArgs args = HEED_GRAPH_ATTENTION_BACKWARD_ARGS_INIT;
  forward_args_ = forward.args();
  args.attention = &forward_args_;
  give(args,
       {&BackwardArgs::grad_query, &BackwardArgs::grad_key, &BackwardArgs::grad_value,
        &BackwardArgs::grad_data, &BackwardArgs::grad_w_query, &BackwardArgs::grad_w_key,
        &BackwardArgs::grad_w_value, &BackwardArgs::grad_b_query, &BackwardArgs::grad_b_key,
        &BackwardArgs::grad_b_value, &BackwardArgs::grad_edge_data, &BackwardArgs::grad_w_edge_key,
        &BackwardArgs::grad_w_edge_value, &BackwardArgs::grad_edge_bias,
        &BackwardArgs::grad_head_weights, &BackwardArgs::grad_score_weights});
  return args;
}

ExpectedGraphGradients GraphBackwardProblem::expected() {
  begin();
  return expect_gradients({forward.given(), given()});
}

GraphGradients GraphBackwardProblem::run(const Context& context, const Graph& graph) {
  begin();
  const Outputs of_attention = forward.outputs();
  run_plan(make_plan(context, graph, desc()), args());
  if (!same_bits(forward.outputs(), of_attention))
    throw std::runtime_error("wrote an output of attention");
  return got();
}

GraphGradients GraphBackwardProblem::run(const Context& context, GraphForm form) {
  form.reverse = true;
  return run(context, make_graph(context, forward.edges, form));
}

}  // namespace heed_test
