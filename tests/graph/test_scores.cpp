// Scores that are no products, by hand: of GAT, of GATv2, and Bahdanau's.
#include <cmath>

#include "tests/graph/problems.hpp"

using namespace heed_test;

namespace {

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

// Their default scale is 1.
TEST_CASE("scores are sums, or weighted sums over features, of what act() makes", "[scores]") {
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
