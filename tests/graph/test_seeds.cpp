// Attention as messages along the edges of a graph: the numbers of a printed run.
#include <utility>

#include "tests/dense/kinds.hpp"
#include "tests/oracle/rounding.hpp"

using namespace heed_test;

namespace {

// ---- A run as it was printed: 10 nodes, 36 edges, scores from -288 to 211 ----

/// A node with the sources of its incoming edges, their scores and the weights printed for them.
struct PrintedNode {
  std::vector<std::int64_t> sources;
  std::vector<double> scores;
  std::vector<double> weights;
};

const std::vector<PrintedNode>& printed_nodes() {
  static const std::vector<PrintedNode> all = {
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
  return all;
}

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

/// Values are the identity, so that out lists the weights by source. Scores are given outright:
/// through one feature and queries of 1, or through edges.
GraphProblem weights_of(const EdgeList& edges, const std::vector<double>& scores, ScoresFrom from,
                        std::uint32_t dtype) {
  GraphProblem p(edges, graph_desc(1, 1, edges.nodes, all_of(dtype)));
  p.desc.scale = 1;
  p.query->fill([] { return 1; });
  p.key->fill([] { return 0; });
  p.value->each([&](const Axes& at) { p.value->set(at, at[2] == at[3] ? 1 : 0); });
  const auto score = [&](const Axes& at) { return scores[static_cast<std::size_t>(at[2])]; };
  if (from == ScoresFrom::kKeys)
    for (std::size_t e = 0; e < scores.size(); ++e)
      p.key->set({0, 0, edges.sources[e], 0}, scores[e]);
  if (from == ScoresFrom::kEdgeData) {
    p.desc.edge_width = 1;
    p.desc.edge_data.dtype = p.desc.w_edge_key.dtype = dtype;
    p.add({kGraphEdgeData, kGraphWEdgeKey});
    p.edge_data->each([&](const Axes& at) { p.edge_data->set(at, score(at)); });
    p.w_edge_key->fill([] { return 1; });
  }
  if (from == ScoresFrom::kEdgeBias) {
    p.desc.edge_bias.dtype = dtype;
    p.add({kGraphEdgeBias});
    p.edge_bias->each([&](const Axes& at) { p.edge_bias->set(at, score(at)); });
  }
  p.add({kGraphWeights, kGraphLse});
  return p;
}

/// One printed node, or all, with their scores in the order of their edges.
struct PrintedRun {
  EdgeList edges{10, {}, {}, true};
  std::vector<double> scores;
  std::vector<std::pair<std::size_t, std::size_t>> places;  ///< node and place of every edge

  void add(std::size_t node) {
    const PrintedNode& n = printed_nodes()[node];
    for (std::size_t j = 0; j < n.sources.size(); ++j) {
      edges.add(n.sources[j], static_cast<Index>(node));
      scores.push_back(n.scores[j]);
      places.emplace_back(node, j);
    }
  }
};

template <class Real>
void check_printed(const PrintedRun& run, ScoresFrom from) {
  constexpr bool kDouble = std::is_same_v<Real, double>;
  GraphProblem p =
      weights_of(run.edges, run.scores, from, kDouble ? HEED_DTYPE_F64 : HEED_DTYPE_F32);
  const Expected want = p.expected();
  check_problem(p);
  for (const char* const isa : isa_names()) {
    const Outputs got = p.run(isa);
    for (std::size_t e = 0; e < run.places.size(); ++e) {
      const auto [node, j] = run.places[e];
      const PrintedNode& printed = printed_nodes()[node];
      INFO(isa << ", edge from " << printed.sources[j] << " to " << node << ": weight "
               << got.weights[e] << ", printed " << printed.weights[j]);
      CHECK(std::fabs(got.weights[e] - printed.weights[j]) <=
            printed_bound<Real>(printed, j) + want.weights[e].bound);
      const std::size_t in_out = node * 10 + static_cast<std::size_t>(printed.sources[j]);
      CHECK(std::fabs(got.out[in_out] - printed.weights[j]) <=
            printed_bound<Real>(printed, j) + want.out[in_out].bound);
    }
  }
}

}  // namespace

TEST_CASE("the printed scores of ten nodes, from -288 to 211, give the printed weights",
          "[seeds]") {
  PrintedRun all;
  for (std::size_t node = 0; node < 10; ++node) {
    all.add(node);
    PrintedRun one;
    one.add(node);
    check_printed<float>(one, ScoresFrom::kKeys);
    check_printed<double>(one, ScoresFrom::kKeys);
  }
  for (const ScoresFrom from : {ScoresFrom::kEdgeData, ScoresFrom::kEdgeBias}) {
    check_printed<float>(all, from);
    check_printed<double>(all, from);
  }
}
