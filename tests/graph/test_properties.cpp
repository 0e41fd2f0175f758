// What must hold between two runs, whatever the numbers.
#include "tests/graph/problems.hpp"

using namespace heed_test;

namespace {

/// Row n of `from` becomes row to[n].
void permute_rows(std::optional<Tensor>& tensor, const std::vector<std::size_t>& to) {
  if (!tensor) return;
  const Tensor before = *tensor;
  before.each([&](const Axes& at) {
    tensor->set({at[0], at[1], static_cast<Index>(to[static_cast<std::size_t>(at[2])]), at[3]},
                before.get(at));
  });
}

/// The same graph with other numbers for its nodes.
GraphProblem renamed(const GraphProblem& problem, const std::vector<std::size_t>& to) {
  GraphProblem p = problem;
  for (auto* const ends : {&p.edges.sources, &p.edges.destinations})
    for (Index& n : *ends) n = static_cast<Index>(to[static_cast<std::size_t>(n)]);
  for (auto* const tensor : {&p.query, &p.key, &p.value, &p.data}) permute_rows(*tensor, to);
  return p;
}

void check_renamed(GraphProblem& p, std::uint64_t seed) {
  const auto nodes = static_cast<std::size_t>(p.edges.nodes);
  Random random(seed);
  const std::vector<std::size_t> to = random_order(nodes, random);
  GraphProblem other = renamed(p, to);
  const GraphExpected bounds = p.expected();
  const GraphExpected other_bounds = other.expected();
  const auto width = static_cast<std::size_t>(value_features_of(p.desc));
  for (const char* const isa : isa_names()) {
    INFO(isa << ": " << line_of(p));
    const GraphOutputs a = p.run(isa);
    const GraphOutputs b = other.run(isa);
    check_close("out", a.out, bounds.out, b.out, other_bounds.out, [&](std::size_t i) {
      const std::size_t row = i / width;
      return (row / nodes * nodes + to[row % nodes]) * width + i % width;
    });
    check_close("lse", a.lse, bounds.lse, b.lse, other_bounds.lse,
                [&](std::size_t i) { return i / nodes * nodes + to[i % nodes]; });
    check_close("weights", a.weights, bounds.weights, b.weights, other_bounds.weights);
  }
}

/// A dense problem over the same numbers, every node a row and a key.
Problem dense_of(const GraphProblem& p, const Kind& kind) {
  Sizes sizes = {p.edges.nodes, p.edges.nodes, p.desc.features, value_features_of(p.desc)};
  sizes.query_heads = sizes.key_heads = p.desc.heads;
  sizes.types = kind.types;
  Problem dense(sizes);
  const auto copy = [](const Tensor& from, Tensor& to) {
    from.each([&](const Axes& at) { to.set(at, from.get(at)); });
  };
  copy(*p.query, dense.query);
  copy(*p.key, dense.key);
  copy(*p.value, dense.value);
  dense.desc.scale = p.desc.scale;
  dense.desc.softcap = p.desc.softcap;
  dense.desc.temperature = p.desc.temperature;
  if (p.edge_bias) {
    Tensor& bias = dense.add_bias(dense.pairs());
    // Edges of the complete graph are ordered by destination, then source.
    bias.each([&](const Axes& at) {
      bias.set(at, p.edge_bias->get({0, at[1], at[2] * p.edges.nodes + at[3], 0}));
    });
  }
  dense.want_lse();
  dense.want_weights(HEED_WEIGHTS_PROBABILITIES);
  return dense;
}

void check_as_dense(GraphProblem& p, const Kind& kind) {
  Problem dense = dense_of(p, kind);
  const GraphExpected bounds = p.expected();
  const Expected dense_bounds = dense.expected_all();
  Choices choices;
  choices.precision = HEED_PRECISION_EXACT;  // as graphs are
  const IsaContexts exact(choices);
  for (std::size_t n = 0; n < exact.size(); ++n) {
    INFO(IsaContexts::name(n) << ": " << line_of(p));
    const GraphOutputs got = p.run(IsaContexts::name(n));
    const Outputs want = dense.run_all(exact[n]);
    check_close("out", got.out, bounds.out, want.out, dense_bounds.out);
    check_close("lse", got.lse, bounds.lse, want.lse, dense_bounds.lse);
    check_close("weights", got.weights, bounds.weights, want.weights, dense_bounds.weights);
  }
}

}  // namespace

TEST_CASE("results move with the nodes", "[properties]") {
  for (const Kind& kind : kinds()) {
    GraphProblem p = projected_problem(random_edges(40, 300, 1), 3, 7, 5, kind.types, 2);
    check_renamed(p, 3);
  }
  GraphProblem steps(random_edges(30, 100, 4), 2, 6, 4);
  steps.desc.inputs = HEED_GRAPH_SHARED;
  steps.desc.residual = 1;
  steps.desc.steps = 2;
  steps.add_data(8);
  steps.add_matrices();
  add_edge_tensors(steps, 3);
  steps.add_out();
  steps.want_lse();
  steps.want_weights();
  steps.fill(5, 0.5);
  check_renamed(steps, 6);
}

TEST_CASE("a complete graph is dense attention", "[properties]") {
  for (const Kind& kind : kinds())
    for (const Index nodes : {1, 2, 15, 33, 70}) {
      if (!keep(static_cast<std::size_t>(nodes))) continue;
      GraphProblem p = projected_problem(complete_graph(nodes), 2, 16, 9, kind.types,
                                         static_cast<std::uint64_t>(nodes));
      check_as_dense(p, kind);
    }
}

TEST_CASE("a complete graph is dense attention, with every option that both have", "[properties]") {
  std::size_t index = 0;
  for (const Kind& kind : kinds()) {
    GraphProblem p = projected_problem(complete_graph(37), 3, 8, 8, kind.types, 9);
    p.add_edge_bias();
    p.fill(9);
    for (const double softcap : {0.0, 2.0})
      for (const double temperature : {0.0, 0.5, kInfinity}) {
        if (!keep_of_few(index++)) continue;
        p.desc.softcap = softcap;
        p.desc.temperature = temperature;
        p.desc.scale = 0.4;
        check_as_dense(p, kind);
      }
  }
}

TEST_CASE("in place of its data", "[properties]") {
  for (const char* const isa : isa_names())
    for (const std::uint32_t inputs :
         {HEED_GRAPH_PROJECTED, HEED_GRAPH_SHARED, HEED_GRAPH_PER_NODE})
      for (const std::uint32_t residual : {0U, 1U}) {
        if (inputs == HEED_GRAPH_PROJECTED && residual == 0) continue;
        GraphProblem p(random_edges(200, 1500, 3), 3, 5, 4);
        p.desc.inputs = inputs;
        p.desc.residual = residual;
        p.add_data(12);
        if (inputs == HEED_GRAPH_PROJECTED) p.add_projected();
        if (inputs != HEED_GRAPH_PROJECTED) p.add_matrices();
        p.add_out();
        p.fill(8);
        for (const Index steps : {1, 2, 3}) {
          if (inputs == HEED_GRAPH_PROJECTED && steps > 1) continue;
          p.desc.steps = steps;
          p.in_place = false;
          const GraphOutputs apart = p.run(isa);
          p.in_place = true;
          INFO(isa << ": " << line_of(p));
          CHECK(same_bits(p.run(isa), apart));
          CHECK(same_bits(p.run(make_context(isa, {"serial", 1})), apart));
        }
      }
}

TEST_CASE("asking for more changes no bit of out", "[properties]") {
  for (const char* const isa : isa_names())
    for (const Kind& kind : kinds())
      for (const Index width : {10, 16}) {  // rows of 16 are written in place
        GraphProblem all = projected_problem(hub_graph(50, 400, 7, 2), 5, 12, width, kind.types, 4);
        GraphProblem only = all;
        only.weights.reset();
        const GraphOutputs want = all.run(isa);
        CHECK(check_same("without weights", only.run(isa).out, want.out));
        only.lse.reset();
        CHECK(check_same("with nothing else", only.run(isa).out, want.out));
      }
}

TEST_CASE("weights of each node and head add up to 1, or 0", "[properties]") {
  GraphProblem p = projected_problem(random_edges(60, 200, 12), 4, 6, 1, {}, 13);
  const auto edges = static_cast<std::size_t>(p.edges.size());
  for (const char* const isa : isa_names()) {
    const GraphOutputs got = p.run(isa);
    for (std::size_t h = 0; h < 4; ++h) {
      std::vector<double> sums(60);
      for (std::size_t e = 0; e < edges; ++e)
        sums[static_cast<std::size_t>(p.edges.destinations[e])] += got.weights[h * edges + e];
      const auto into = incoming(p.edges);
      for (std::size_t n = 0; n < 60; ++n) {
        const auto count = static_cast<double>(into[n].size());
        INFO(isa << ": node " << n << ", head " << h);
        CHECK(std::fabs(sums[n] - (count > 0 ? 1 : 0)) <= gamma_of(2 * count + 8));
      }
    }
  }
}

TEST_CASE("edges into other nodes change no bit of a node", "[properties]") {
  for (const char* const isa : isa_names())
    for (const Kind& kind : kinds()) {
      GraphProblem all = projected_problem(hub_graph(40, 700, 13, 31), 3, 8, 5, kind.types, 32);
      all.weights.reset();
      GraphProblem some = all;
      some.edges = EdgeList{40, {}, {}, false};
      for (std::size_t e = 0; e < all.edges.sources.size(); ++e)
        if (all.edges.destinations[e] % 3 == 1)
          some.edges.add(all.edges.sources[e], all.edges.destinations[e]);
      const GraphOutputs want = all.run(isa);
      const GraphOutputs got = some.run(isa);
      INFO(isa << ": " << line_of(some));
      for (std::size_t i = 0; i < got.out.size(); ++i)
        if (i / 5 % 40 % 3 == 1) CHECK(same_element(got.out, i, want.out, i));
      for (std::size_t i = 0; i < got.lse.size(); ++i)
        if (i % 40 % 3 == 1) CHECK(same_element(got.lse, i, want.lse, i));
    }
}

TEST_CASE("scores that climb slowly, quickly, and in steps", "[properties]") {
  EdgeList edges{20, {}, {}, false};
  for (Index e = 0; e < 400; ++e) edges.add(e / 20, 3);
  for (const double slope : {0.02, 0.08, 0.5, 5.0, 200.0, -0.08, -5.0, -200.0})
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64}) {
      GraphProblem p = projected_problem(edges, 3, 4, 9, all_of(dtype));
      p.add_edge_bias();
      p.add_edge_data(2, dtype);
      p.add_edge_values(dtype);
      p.fill(33, 0.5);
      // Another way in each head, so that references move apart.
      p.edge_bias->each([&](const Axes& at) {
        const auto step = static_cast<double>(at[2] / 40 * 40) + static_cast<double>(at[2] % 3) / 4;
        p.edge_bias->set(at, slope * step * static_cast<double>(1 - at[1]));
      });
      INFO("slope " << slope);
      check_problem(p);
    }
}
