// Gradients over graphs: by hand, where nothing is due, at hubs, and the same bits everywhere.
#include <cmath>

#include "tests/graph/problems.hpp"
#include "tests/problem/random_graph_backward.hpp"
#include "tests/support/attention.hpp"
#include "tests/support/executors.hpp"

using namespace heed_test;

namespace {

constexpr auto kAny = Arrangement::kDefault;

/// Every gradient that the problem has.
GraphBackwardProblem all_gradients_of(GraphProblem forward, std::uint64_t seed = 1) {
  GraphBackwardProblem p(std::move(forward), seed, {HEED_DTYPE_DEFAULT, kAny, 0});
  p.give_grad_lse(seed + 100);
  p.want_all();
  return p;
}

/// Compares with the oracle on every instruction set.
void check_backward(GraphBackwardProblem& p, Index parts = 1) {
  const ExpectedGraphGradients want = p.expected(parts);
  for (const char* const isa : isa_names()) {
    const GraphGradientComparison compared =
        compare_gradients(isa + (": " + line_of(p)), p, p.run(make_context(isa)), want);
    CHECK(compared.worst() <= 1);
    if (!compared.wrong.empty()) FAIL_CHECK(compared.wrong);
  }
}

/// A node that edges lead to and one that they lead from, both of which are cut into pieces.
EdgeList two_hubs(Index edges) {
  EdgeList list = random_edges(400, edges, 3);
  for (std::size_t e = 0; e < list.sources.size(); ++e) {
    if (e % 3 == 0) list.destinations[e] = 7;
    if (e % 3 == 1) list.sources[e] = 200;
  }
  return list;
}

GraphProblem with_everything(EdgeList edges, std::uint32_t inputs, const Types& types = {}) {
  GraphProblem p(std::move(edges), 2, 5, 3);
  p.desc.inputs = inputs;
  p.desc.softcap = 15;
  p.desc.temperature = 0.8;
  p.desc.residual = 1;
  p.desc.combine = HEED_COMBINE_WEIGHTED;
  p.head_weights.numbers.resize(2);
  p.add_data(3, types.query);
  if (inputs == HEED_GRAPH_PROJECTED) {
    p.add_projected(types);
  } else {
    p.add_matrices(types.query);
    p.desc.steps = 2;
  }
  add_edge_tensors(p, 3, types.query);
  p.add_out(types.out);
  p.fill(9);
  p.edge_bias->each([&](const Axes& at) {
    if ((at[2] + at[1]) % 5 == 0) p.edge_bias->set(at, -kInfinity);
  });
  return p;
}

bool all_zero(const Numbers& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != 0) return false;
  return numbers.size() > 0;
}

}  // namespace

TEST_CASE("gradients through a softcap that has no reciprocal, nor has its share of a temperature",
          "[backward]") {
  struct Case {
    bool wide;
    double softcap, scale, temperature;
  };
  for (const Case& c : {Case{false, 1e-40, 3e-41, 1}, Case{true, 1e-310, 3e-311, 1},
                        Case{false, 2, 1, 1e39}, Case{true, 1e-10, 1e-10, 1e300}}) {
    const Types types = all_of(c.wide ? HEED_DTYPE_F64 : HEED_DTYPE_DEFAULT);
    GraphProblem forward = with_everything(random_edges(30, 200, 4), HEED_GRAPH_PROJECTED, types);
    forward.desc.softcap = c.softcap;
    forward.desc.scale = c.scale;
    forward.desc.temperature = c.temperature;
    GraphBackwardProblem p = all_gradients_of(std::move(forward));
    check_backward(p);
  }
}

TEST_CASE("gradients of two edges, by hand", "[backward]") {
  // Node 2 attends to nodes 0 and 1 with weights p and 1 - p: out = p v_0 + (1 - p) v_1.
  EdgeList edges{3, {}, {}, false};
  edges.add(0, 2);
  edges.add(1, 2);
  const double q = 0.5;
  const double k[] = {1, -1};
  const double v[] = {2, 5};
  GraphProblem wide = projected_problem(
      edges, 1, 1, 1, {HEED_DTYPE_F64, HEED_DTYPE_F64, HEED_DTYPE_F64, HEED_DTYPE_F64});
  wide.desc.scale = 1;
  for (Index n = 0; n < 3; ++n) {
    wide.query->set({0, 0, n, 0}, q);
    wide.key->set({0, 0, n, 0}, n < 2 ? k[n] : 0);
    wide.value->set({0, 0, n, 0}, n < 2 ? v[n] : 0);
  }
  GraphBackwardProblem p(std::move(wide), 1, {HEED_DTYPE_F64, kAny, 0});
  p.grad_out.fill([] { return 1.0; });
  p.want_all();
  const double a = std::exp(q * k[0]) / (std::exp(q * k[0]) + std::exp(q * k[1]));
  const double out = a * v[0] + (1 - a) * v[1];
  const double s[] = {a * (v[0] - out), (1 - a) * (v[1] - out)};
  const GraphGradients got = p.run(make_context(isa_names().back()));
  const auto near = [](double x, double y) { return std::fabs(x - y) < 1e-14; };
  CHECK(near(got[kGraphQuery][2], s[0] * k[0] + s[1] * k[1]));
  CHECK(near(got[kGraphKey][0], s[0] * q));
  CHECK(near(got[kGraphKey][1], s[1] * q));
  CHECK(near(got[kGraphValue][0], a));
  CHECK(near(got[kGraphValue][1], 1 - a));
  CHECK(got[kGraphQuery][0] == 0);
  CHECK(got[kGraphQuery][1] == 0);
  CHECK(got[kGraphKey][2] == 0);
  CHECK(got[kGraphValue][2] == 0);
}

TEST_CASE("gradients are exactly 0 without edges", "[backward]") {
  for (const Kind& kind : kinds()) {
    GraphProblem forward = projected_problem(EdgeList{20, {}, {}, false}, 3, 5, 4, kind.types);
    GraphBackwardProblem p = all_gradients_of(std::move(forward));
    for (const char* const isa : isa_names()) {
      const GraphGradients got = p.run(make_context(isa));
      for (const GraphGradientOf of : {kGraphQuery, kGraphKey, kGraphValue})
        CHECK(all_zero(got[of]));
    }
  }
}

TEST_CASE("gradients of graphs with loops, duplicates and lone nodes", "[backward]") {
  EdgeList edges{12, {}, {}, false};
  for (Index n = 0; n < 6; ++n) edges.add(n, n);
  for (int twice = 0; twice < 2; ++twice)
    for (Index n = 0; n < 8; ++n) edges.add(n * 5 % 8, n / 2);
  for (const bool unique : {false, true}) {
    edges.unique = unique;
    for (const Kind& kind : kinds()) {
      GraphBackwardProblem p =
          all_gradients_of(with_everything(edges, HEED_GRAPH_PROJECTED, kind.types));
      check_backward(p);
    }
  }
}

TEST_CASE("every way to combine heads has gradients", "[backward]") {
  for (const heed_combine combine :
       {HEED_COMBINE_CONCAT, HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN, HEED_COMBINE_MAX}) {
    GraphProblem forward(random_edges(30, 90, 4), 3, 6, 5);
    forward.desc.combine = combine;
    if (combine == HEED_COMBINE_WEIGHTED) forward.head_weights.numbers.resize(3);
    forward.add_projected();
    forward.add_out();
    forward.fill(3);
    GraphBackwardProblem p = all_gradients_of(std::move(forward));
    check_backward(p);
  }
}

TEST_CASE("a bias that more heads share than a panel has, has the gradient of all", "[backward]") {
  for (const Index heads : {3, 61, 130}) {
    GraphProblem p(random_edges(9, 40, 3), heads, 2, 1);
    p.add_projected();
    p.add_shared_edge_bias();
    p.add_out();
    p.fill(7);
    GraphBackwardProblem gradients = all_gradients_of(std::move(p));
    check_backward(gradients);
  }
}

TEST_CASE("gradients of hubs against the oracle, in the same bits everywhere",
          "[backward][hubs][threads]") {
  const Index edges = small() ? 26000 : 60000;
  for (const std::uint32_t inputs : {HEED_GRAPH_PROJECTED, HEED_GRAPH_SHARED}) {
    if (brief() && inputs == HEED_GRAPH_PROJECTED) continue;
    GraphBackwardProblem p = all_gradients_of(with_everything(two_hubs(edges), inputs));
    const ExpectedGraphGradients want = p.expected(edges / 8192 + 1);
    for (const char* const isa : isa_names()) {
      const GraphGradients got = p.run(make_context(isa));
      const GraphGradientComparison compared =
          compare_gradients(isa + (": " + line_of(p)), p, got, want);
      if (!compared.wrong.empty()) FAIL_CHECK(compared.wrong);
      each_executor(isa, [&](const std::string& name, const Context& context) {
        INFO(isa << ", " << name << ": " << line_of(p));
        CHECK(same_bits(p.run(context), got));
      });
    }
  }
}

TEST_CASE("the order of an edge list without tensors changes no bit of a gradient",
          "[backward][same]") {
  GraphProblem forward = projected_problem(random_edges(60, 500, 6), 2, 7, 5);
  GraphBackwardProblem p = all_gradients_of(std::move(forward));
  Random random(4);
  const EdgeList other =
      reordered(p.forward.edges, random_order(p.forward.edges.sources.size(), random));
  for (const char* const isa : isa_names()) {
    const Context context = make_context(isa);
    const GraphGradients want = p.run(context);
    GraphBackwardProblem again = p;
    again.forward.edges = other;
    CHECK(same_bits(again.run(context), want));
    CHECK(same_bits(again.run(context, {false, HEED_INDEX_I64}), want));
  }
}

TEST_CASE("a reversed graph tells of its memory", "[backward]") {
  const Context context = make_context(nullptr);
  const EdgeList edges = random_edges(100, 700, 1);
  const heed_graph_info plain = describe(make_graph(context, edges));
  GraphForm form;
  form.reverse = true;
  const heed_graph_info reversed = describe(make_graph(context, edges, form));
  CHECK(plain.reverse == 0);
  CHECK(reversed.reverse == 1);
  CHECK(reversed.edges == plain.edges);
  CHECK(reversed.bytes >= plain.bytes + 700 * sizeof(std::int32_t));
}
