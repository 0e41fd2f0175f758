#include "tests/problem/graph_attention.hpp"

#include <cmath>
#include <sstream>
#include <stdexcept>

namespace heed_test {
namespace {

using Desc = heed_graph_attention_desc;
using Args = heed_graph_attention_args;
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

}  // namespace

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

Expected GraphProblem::expected() { return expect(given()); }

GraphGiven GraphProblem::given(Index first_nodes) const {
  GraphGiven given{desc, edges, {}, first_nodes, dropout_seed, dropout_offset};
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

Outputs GraphProblem::run(const char* isa) { return run(make_context(isa)); }

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
    heed_weights* made = nullptr;
    require_ok(heed_weights_create(context.get(), &d, a.*w.input, a.*b.input, &made));
    all.emplace_back(made);
    a.*kPrepared[i] = made;
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
    line << " dropout " << d.dropout << " of " << p.dropout_seed << ", " << p.dropout_offset;
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

}  // namespace heed_test
