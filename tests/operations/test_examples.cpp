// The worked examples that heed grew from, with their known answers: as rows that are attended, as
// inputs that a block multiplies with its matrices first, and as nodes of a graph, whose scores are
// by hand of GAT, of GATv2, and Bahdanau's too.
#include "tests/operations/operations.hpp"
#include "tests/oracle/rounding.hpp"

using namespace heed_test;

namespace {

using Answers = std::vector<double>;

/// In the order of their elements.
void copy(const Answers& from, Tensor& to) {
  std::size_t i = 0;
  to.fill([&] { return from.at(i++); });
}
void copy(const Answers& from, WeightMatrix& to) {
  std::size_t i = 0;
  to.each([&](Index m, Index in, Index out) { to.set(m, in, out, from.at(i++)); });
}

/// Answers printed to `digit` are off by half of it at most.
void check_numbers(const char* isa, const Numbers& got, const std::vector<Element>& want,
                   const Answers& answers, double digit) {
  REQUIRE(got.size() == answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    INFO(isa << ": element " << i << " is " << got[i] << ", expected " << answers[i]);
    CHECK(std::fabs(got[i] - answers[i]) <= want[i].bound + digit / 2);
  }
}

Problem& attention_of(Problem& p) { return p; }
Problem& attention_of(Block& block) { return block.attention; }

/// Compares out, or the weights at some point on the way, with answers; of weights those of these
/// rows.
template <class Runnable>
void check_answers(Runnable& p, const Answers& answers, double digit,
                   heed_weights_point point = HEED_WEIGHTS_NONE,
                   const std::vector<Index>& rows = {}) {
  const bool weights = point != HEED_WEIGHTS_NONE;
  attention_of(p).want_nothing_else();
  if (weights) attention_of(p).want_weights(point, HEED_DTYPE_DEFAULT, Arrangement::kDefault, rows);
  const Expected want = p.expected();
  for (const char* const isa : isa_names()) {
    const Outputs got = p.run_all(isa);
    check_results(isa, run(p, make_context(isa)), wanted(want), isa);
    check_numbers(isa, weights ? got.weights : got.out, weights ? want.weights : want.out, answers,
                  digit);
  }
}

// ---- The sentence ----

/// "The sleepy child reads a book": one vector for each of its six words.
const Answers kSentence = {0, 0, 0, 2, 0, 1, 1, -1, -2, 2, 3, 1, -2, 0, 0, 0, 2, 1};
const Answers kValues = {0, -0.2, 0.3, 0.4, 0, 0.1};

/// What "book" finds, asked as a vector.
Problem sentence() {
  Problem p({1, 6, 3, 1});
  copy({0, 2, 1}, p.query);
  copy(kSentence, p.key);
  copy(kValues, p.value);
  p.desc.scale = 1;
  return p;
}

/// Answers to the sentence printed to nine digits. The values themselves, such as 0.1, are rounded
/// to float32: off by kUnit of 0.4 at most.
constexpr double kDigit = 1e-9 + kUnit;

const Answers kSoft = {8.00138959e-4, 2.17500319e-3, 1.46550562e-5,
                       0.877458913,   8.00138959e-4, 0.118751151};

// ---- Inputs that are multiplied with small integers, which is exact ----

struct Inputs {
  const char* name;
  Index rows, width;
  double scale;  ///< 0: 1 / sqrt(3), by the features of a key
  Answers x, w_query, w_key, w_value;
  Answers out, scores, probs;  ///< probs: of all rows, or of the first
};

/// Each of these rows times a matrix of three columns.
Answers project(const Answers& rows, const Answers& matrix, Index width) {
  const auto features = static_cast<std::size_t>(width);
  Answers projected(rows.size() / features * 3, 0);
  for (std::size_t i = 0; i < projected.size(); ++i)
    for (std::size_t f = 0; f < features; ++f)
      projected[i] += rows[i / 3 * features + f] * matrix[f * 3 + i % 3];
  return projected;
}

std::vector<Inputs> all_inputs() {
  const double two = 2 / std::sqrt(3.0);
  return {{"four words",
           4,
           3,
           0,
           {1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1},
           {2, 0, 0, 0, 0, 1, 2, 0, 0},
           {0, 1, 0, 0, 2, 0, 1, 0, 2},
           {1, 1, 1, 1, 1, 1, 2, 2, 0},
           {1.67601226, 1.67601226, 0.64797548, 1.67601226, 1.67601226, 0.64797548, 1.84695899,
            1.84695899, 0.30608202, 1.67601226, 1.67601226, 0.64797548},
           {0, 0, 0, two, 0, 0, 0, two, 0, 0, 0, 2 * two, 0, 0, 0, two},
           {0.16199387, 0.16199387, 0.16199387, 0.51401839}},
          {"three inputs of four features",
           3,
           4,
           1,
           {1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1},
           {1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1},
           {0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0},
           {0, 2, 0, 0, 3, 0, 1, 0, 3, 1, 1, 0},
           {1.93662106, 6.68310531, 1.59506841, 1.99999397, 7.9639916, 0.05397641, 1.99970461,
            7.75989225, 0.35838929},
           {2, 4, 4, 4, 16, 12, 4, 12, 10},
           {6.33789383e-02, 4.68310531e-01, 4.68310531e-01, 6.03366485e-06, 9.82007865e-01,
            1.79861014e-02, 2.95387223e-04, 8.80536902e-01, 1.19167711e-01}}};
}

/// The rows that attention is given.
Problem attended(const Inputs& in) {
  Problem p({in.rows, in.rows, 3, 3});
  copy(project(in.x, in.w_query, in.width), p.query);
  copy(project(in.x, in.w_key, in.width), p.key);
  copy(project(in.x, in.w_value, in.width), p.value);
  p.desc.scale = in.scale;
  return p;
}

/// One head, whose result stays as it is: W_out is the identity.
Block multiplied(const Inputs& in) {
  heed_multihead_desc desc = block_desc(HEED_DTYPE_DEFAULT, in.width);
  desc.width_out = 3;
  Block block = plain_block(in.rows, 0, 1, 3, desc);
  for (WeightMatrix* const w : block.matrices()) w->bias.reset();
  block.attention.desc.scale = in.scale;
  copy(in.x, block.input_query);
  copy(in.w_query, block.w_query);
  copy(in.w_key, block.w_key);
  copy(in.w_value, block.w_value);
  block.w_out->fill_identity();
  return block;
}

/// Every row, asked as a vector query, gives the bits that it has among the others.
void check_vector_queries(Problem& p) {
  const heed_attention_desc& d = p.desc;
  on_every_isa(p, [&](const Outputs& rows, std::size_t n) {
    for (Index i = 0; i < d.query_length; ++i) {
      Problem vector({1, d.key_length, d.features, d.value_features});
      vector.query.fill([&](const Axes& at) { return p.query.get({0, 0, i, at[3]}); });
      vector.key.assign(p.key);
      vector.value.assign(p.value);
      vector.desc.scale = d.scale;
      const auto row = rows.out.bits.begin() + i * d.value_features;
      INFO("row " << i);
      CHECK(same_bits(vector.run_all(IsaContexts::name(n)).out,
                      {rows.out.dtype, {row, row + d.value_features}}));
    }
  });
}

}  // namespace

TEST_CASE("the sentence, by scale, by temperature and hard", "[examples]") {
  const double root = std::sqrt(3.0);
  const Answers fourth = {0, 0, 0, 1, 0, 0};
  struct Case {
    double scale;
    double temperature;
    std::uint32_t hard;
    double answer;
    Answers weights;
  };
  for (const Case& c : {Case{1, 0, 0, 0.362428076, kSoft}, Case{1, 0, 1, 0.4, fourth},
                        // From hard over soft to the mean.
                        Case{1, 0.01, 0, 0.4, fourth}, Case{1, 1, 0, 0.362428076, kSoft},
                        Case{1, kInfinity, 0, 0.1, Answers(6, 1 / 6.0)},
                        // A temperature is the inverse of a scale, 1/sqrt(3) the default.
                        Case{1, root, 0, 0.307789757, {}}, Case{1 / root, 0, 0, 0.307789757, {}},
                        Case{0, 0, 0, 0.307789757, {}},
                        // Towards 0: the mean of the values.
                        Case{1e-30, 0, 0, 0.1, {}}}) {
    Problem p = sentence();
    p.desc.scale = c.scale;
    p.desc.temperature = c.temperature;
    p.desc.hard = c.hard;
    check_answers(p, {c.answer}, kDigit);
    if (!c.weights.empty())
      check_answers(p, c.weights, c.weights == kSoft ? 1e-9 : 0, HEED_WEIGHTS_PROBABILITIES);
  }
  Problem scores = sentence();
  check_answers(scores, {0, 1, -4, 7, 0, 5}, 0, HEED_WEIGHTS_SCORES);
}

TEST_CASE("the sentence, every word a query: its last row is the vector query", "[examples]") {
  // Six queries of three features: it is the features that the default scale counts.
  Problem p({6, 6, 3, 1});
  copy(kSentence, p.query);
  copy(kSentence, p.key);
  copy(kValues, p.value);
  const Element want = p.expected().out.back();
  on_every_isa(p, [&](const Outputs& got) {
    INFO(got.out[5]);
    CHECK(std::fabs(got.out[5] - 0.307789757) <= want.bound + kDigit / 2);
  });
  check_vector_queries(p);
}

TEST_CASE("inputs and their matrices, as rows and as a block", "[examples]") {
  for (const Inputs& in : all_inputs()) {
    INFO(in.name);
    Problem rows = attended(in);
    Block block = multiplied(in);
    const auto check = [&](const Answers& answers, double digit,
                           heed_weights_point point = HEED_WEIGHTS_NONE,
                           const std::vector<Index>& listed = {}) {
      check_answers(rows, answers, digit, point, listed);
      check_answers(block, answers, digit, point, listed);
    };
    check(in.out, 1e-8);
    check(in.scores, 0, HEED_WEIGHTS_SCORES);
    const bool first = in.probs.size() < in.scores.size();
    check(in.probs, 1e-8, HEED_WEIGHTS_PROBABILITIES,
          first ? std::vector<Index>{0} : std::vector<Index>{});
    rows.want_nothing_else();
    check_vector_queries(rows);
  }
}

// ---- Graphs ----

namespace {

/// A node with the sources of its incoming edges, their scores and the weights printed for them.
struct PrintedNode {
  std::vector<std::int64_t> sources;
  std::vector<double> scores;
  std::vector<double> weights;
};

const std::vector<PrintedNode> kPrinted = {
    {{4, 3, 7, 6},
     {66.28713441407328, -42.356895194685464, -72.42356412336589, 37.33998459065121},
     {1, 6.55386436e-48, 5.73731961e-61, 2.68171465e-13}},
    {{9, 1}, {211.47668629424436, 77.85702511746038}, {1, 9.32649533e-59}},
    {{4, 1, 7},
     {35.58941250531445, -53.70434487821338, -80.78903024029921},
     {1, 1.66040449e-39, 2.86737506e-51}},
    {{4, 3, 7},
     {31.240260256884994, 5.379888043038299, 59.36660338598627},
     {6.09374649e-13, 3.57987144e-24, 1}},
    {{0, 8, 1},
     {-23.23660787608064, 34.19954420654749, -74.67617928930356},
     {1.13709327e-25, 1, 5.19845241e-48}},
    {{2, 8, 1, 5},
     {-79.00370928667077, 19.908000741887548, -75.48698208523935, -44.17319414548691},
     {1.10456210e-43, 1, 3.71950680e-42, 1.47873607e-28}},
    {{4, 8, 1, 5, 0, 2},
     {-23.987304007919384, 8.42476207930093, -84.15587488072015, 69.30330615398142,
      -287.98108781017044, -11.46404257694845},
     {3.05072312e-41, 3.63734288e-27, 2.25696321e-67, 1, 6.81332697e-156, 8.37888304e-36}},
    {{3, 5, 8},
     {-23.8989411122908, -6.459026663244714, 13.084969606201714},
     {8.67144860e-17, 3.25199796e-09, 9.99999997e-01}},
    {{0, 2, 6, 4, 1, 7},
     {-44.044223084610195, 18.67462267889491, 71.68866337449023, -32.61671246043159,
      -52.38386938730109, -27.39714905660486},
     {5.46822072e-51, 9.46879387e-24, 1, 5.02054475e-46, 1.30612176e-54, 9.28065068e-44}},
    {{4, 6}, {126.73498602992018, -36.7403289419144}, {1, 1.00826056e-71}}};

/// The printed weights have nine digits, and belong to scores in float64: rounding a score to Real
/// moves its weight by a factor exp(unit |score|), and the largest score's moves all. Below the
/// smallest normal number (2^-126 in float32) of the largest, heed's weight is 0 or subnormal.
template <class Real>
double printed_bound(const PrintedNode& node, std::size_t j) {
  double largest = 0;
  for (const double s : node.scores) largest = std::max(largest, std::fabs(s));
  const auto unit = static_cast<double>(kUnitOf<Real>);
  const double moved = std::expm1(unit * (std::fabs(node.scores[j]) + largest));
  return node.weights[j] * (moved + 1e-8) + static_cast<double>(kSmallestOf<Real>);
}

/// Where the scores of edges come from.
enum class ScoresFrom { kKeys, kEdgeData, kEdgeBias };

/// The printed nodes, their scores given outright: as products of keys with queries of one feature
/// for each node, or by edges. Values are the identity, so that out lists the weights by source.
GraphProblem printed_run(ScoresFrom from, std::uint32_t dtype) {
  EdgeList edges{10, {}, {}, true};
  std::vector<double> scores;
  for (std::size_t node = 0; node < kPrinted.size(); ++node)
    for (std::size_t j = 0; j < kPrinted[node].sources.size(); ++j) {
      edges.add(kPrinted[node].sources[j], static_cast<Index>(node));
      scores.push_back(kPrinted[node].scores[j]);
    }
  GraphProblem p(edges, graph_desc(1, 10, 10, all_of(dtype)));
  p.desc.scale = 1;
  for (Tensor* const identity : {&*p.query, &*p.value})
    identity->fill([](const Axes& at) { return at[2] == at[3] ? 1 : 0; });
  p.key->fill([] { return 0; });
  const auto score = [&](const Axes& at) { return scores[static_cast<std::size_t>(at[2])]; };
  if (from == ScoresFrom::kKeys)
    for (std::size_t e = 0; e < scores.size(); ++e)
      p.key->set({0, 0, edges.sources[e], edges.destinations[e]}, scores[e]);
  if (from == ScoresFrom::kEdgeData) {
    p.desc.edge_width = 1;
    p.desc.edge_data.dtype = p.desc.w_edge_key.dtype = dtype;
    p.add({kGraphEdgeData, kGraphWEdgeKey});
    p.edge_data->fill(score);
    p.w_edge_key->fill([] { return 1; });
  }
  if (from == ScoresFrom::kEdgeBias) {
    p.desc.edge_bias.dtype = dtype;
    p.add({kGraphEdgeBias});
    p.edge_bias->fill(score);
  }
  p.add({kGraphWeights, kGraphLse});
  return p;
}

template <class Real>
void check_printed(ScoresFrom from, std::uint32_t dtype) {
  GraphProblem p = printed_run(from, dtype);
  const Expected want = p.expected();
  check_problem(p);
  for (const char* const isa : isa_names()) {
    const Outputs got = p.run(isa);
    std::size_t e = 0;
    for (std::size_t node = 0; node < kPrinted.size(); ++node)
      for (std::size_t j = 0; j < kPrinted[node].sources.size(); ++j, ++e) {
        const PrintedNode& printed = kPrinted[node];
        INFO(isa << ", edge from " << printed.sources[j] << " to " << node << ": weight "
                 << got.weights[e] << ", printed " << printed.weights[j]);
        const double bound = printed_bound<Real>(printed, j);
        CHECK(std::fabs(got.weights[e] - printed.weights[j]) <= bound + want.weights[e].bound);
        const std::size_t in_out = node * 10 + static_cast<std::size_t>(printed.sources[j]);
        CHECK(std::fabs(got.out[in_out] - printed.weights[j]) <= bound + want.out[in_out].bound);
      }
  }
}

/// Edges from nodes 0 and 1 to node 2, whose query is the last row; values tell the nodes.
GraphProblem scored(heed_score score, heed_activation activation, double slope,
                    const std::vector<double>& rows, const std::vector<double>& weights) {
  const Index features = static_cast<Index>(rows.size()) / 3;
  heed_graph_attention_desc d = graph_desc(1, features, 1);
  d.score = score;
  d.activation = activation;
  d.slope = slope;
  EdgeList edges{3, {}, {}, false};
  edges.add(0, 2);
  edges.add(1, 2);
  GraphProblem p(edges, d);
  p.add({kGraphWeights});
  for (auto* const tensor : {&*p.query, &*p.key})
    tensor->fill(
        [&](const Axes& at) { return rows[static_cast<std::size_t>(at[2] * features + at[3])]; });
  p.value->fill([](const Axes& at) { return static_cast<double>(at[2]); });
  if (p.score_weights)
    p.score_weights->fill([&](const Axes& at) { return weights[static_cast<std::size_t>(at[3])]; });
  return p;
}

/// The weight of the edge from node 0, which node 1 leaves of 1.
void check_weight(GraphProblem p, double first) {
  INFO(line_of(p));
  for (const char* const isa : isa_names()) {
    const Outputs got = p.run(isa);
    CHECK(std::fabs(got.weights[0] - first) < 1e-6);
    CHECK(std::fabs(got.weights[1] - (1 - first)) < 1e-6);
    CHECK(std::fabs(got.out[2] - (1 - first)) < 1e-6);
  }
}

}  // namespace

TEST_CASE("the printed scores of ten nodes, from -288 to 211, give the printed weights",
          "[examples]") {
  for (const ScoresFrom from : {ScoresFrom::kKeys, ScoresFrom::kEdgeData, ScoresFrom::kEdgeBias}) {
    check_printed<float>(from, HEED_DTYPE_F32);
    check_printed<double>(from, HEED_DTYPE_F64);
  }
}

// Their default scale is 1.
TEST_CASE("scores are sums, or weighted sums over features, of what act() makes", "[examples]") {
  // act(-1 + 3) = 2 and act(-1 - 1) = -1: e^2 of e^2 + e^-1.
  check_weight(scored(HEED_SCORE_SUM, HEED_ACTIVATION_LEAKY_RELU, 0.5, {3, -1, -1}, {}),
               0.952574127);
  // Without act() only the keys' difference counts: e^3 of e^3 + e^-1.
  check_weight(scored(HEED_SCORE_SUM, HEED_ACTIVATION_IDENTITY, 0, {3, -1, -1}, {}), 0.982013790);
  // act(2, -1) = (2, -0.5) and act(-2, 0) = (-1, 0), times (1, 2): 1 and -1.
  const std::vector<double> rows = {1, 1, -3, 2, 1, -2};
  check_weight(scored(HEED_SCORE_ADDITIVE, HEED_ACTIVATION_LEAKY_RELU, 0.5, rows, {1, 2}),
               0.880797078);
  // tanh(2) - 2 tanh(1) = -0.559160732 and -tanh(2) = -0.964027580.
  check_weight(scored(HEED_SCORE_ADDITIVE, HEED_ACTIVATION_TANH, 0, rows, {1, 2}), 0.599856409);
}
