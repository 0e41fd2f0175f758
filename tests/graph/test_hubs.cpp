// Nodes with very many edges, which are cut into pieces and merged.
#include <functional>

#include "tests/graph/problems.hpp"

using namespace heed_test;

namespace {

Index many() { return brief() ? 6000 : small() ? 20000 : 100000; }

/// An upper bound of the pieces of a node.
Index pieces_of(const GraphProblem& p, const char* isa) {
  const Context context = make_context(isa);
  const Graph graph = make_graph(context, p.edges);
  return static_cast<Index>(describe(make_plan(context, graph, p.desc)).tasks);
}

void check_hub(GraphProblem& p, Report* report = nullptr) {
  check_problem(p, wanted(p, pieces_of(p, isa_names()[0])), report);
}

GraphProblem hub_problem(Index edges, const Kind& kind, std::uint64_t seed, Index heads = 2,
                         Index features = 4, Index value_features = 3) {
  return projected_problem(hub_graph(500, edges, 77, seed), heads, features, value_features,
                           kind.types, seed);
}

void add_all_options(GraphProblem& p) {
  p.desc.softcap = 20;
  p.desc.temperature = 0.7;
  p.desc.combine = HEED_COMBINE_WEIGHTED;
  p.desc.residual = 1;
  p.desc.width = value_features_of(p.desc);
  p.desc.data.dtype = p.query->dtype();
  p.add({kGraphHeadWeights, kGraphData, kGraphOut});
  add_edge_tensors(p, 3, p.query->dtype());
  p.fill(5);
  p.edge_bias->each([&](const Axes& at) {
    if ((at[2] + at[1]) % 3 == 0) p.edge_bias->set(at, -kInfinity);
  });
}

}  // namespace

TEST_CASE("a hub is cut into pieces", "[hubs]") {
  GraphProblem p = hub_problem(many(), kinds()[0], 1);
  for (Index& n : p.edges.destinations) n = 5;
  CHECK(pieces_of(p, isa_names()[0]) > 1);
}

TEST_CASE("a hub against the oracle", "[hubs]") {
  Report report("hubs");
  for (const Kind& kind : kinds()) {
    GraphProblem p = hub_problem(many(), kind, 2);
    check_hub(p, &report);
  }
  GraphProblem p = hub_problem(many() / 2, kinds()[0], 3, 3);
  add_all_options(p);
  check_hub(p, &report);
}

TEST_CASE("numbers of edges on both sides of every power of two", "[hubs]") {
  Report report("hubs of all sizes");
  for (Index power = 64; power <= many(); power *= 2)
    for (const Index edges : {power - 1, power, power + 1}) {
      GraphProblem p = hub_problem(edges, kinds()[0], static_cast<std::uint64_t>(edges), 1, 2, 2);
      for (Index& n : p.edges.destinations) n = 5;
      check_hub(p, &report);
    }
}

TEST_CASE("several hubs beside small nodes", "[hubs]") {
  EdgeList edges = random_edges(3000, many(), 4);
  for (std::size_t e = 0; e < edges.destinations.size(); ++e) {
    if (e % 4 == 0) edges.destinations[e] = 0;
    if (e % 4 == 1) edges.destinations[e] = 1500;
    if (e % 4 == 2) edges.destinations[e] = 2999;
  }
  GraphProblem p = projected_problem(edges, 2, 3, 2, {}, 6);
  check_hub(p);
}

TEST_CASE("pieces of a hub that have nothing, everything, or NaN", "[hubs]") {
  const Index edges = many();
  EdgeList list{500, {}, {}, false};
  for (Index e = 0; e < edges; ++e) list.add(e * 500 / edges, 3);  // sorted as it is given
  const auto part = [&](Index e) { return e * 10 / edges; };       // tenths of the hub's edges
  const auto set = [&](GraphProblem& p, Index first, Index last, double bias) {
    p.edge_bias->each([&](const Axes& at) {
      if (part(at[2]) >= first && part(at[2]) <= last) p.edge_bias->set(at, bias);
    });
  };
  struct Case {
    const char* name;
    std::function<void(GraphProblem&)> change;
  };
  const Case cases[] = {
      {"the first half has nothing", [&](GraphProblem& p) { set(p, 0, 4, -kInfinity); }},
      {"only one tenth has anything",
       [&](GraphProblem& p) {
         set(p, 0, 9, -kInfinity);
         set(p, 6, 6, 0.5);
       }},
      {"nothing has anything, whatever the keys and values",
       [&](GraphProblem& p) {
         p.key->fill([] { return kNaN; });
         p.value->fill([] { return kNaN; });
         set(p, 0, 9, -kInfinity);
       }},
      {"one tenth has all the weight", [&](GraphProblem& p) { set(p, 7, 7, 500); }},
      {"scores of +inf in two tenths share it",
       [&](GraphProblem& p) {
         set(p, 2, 2, kInfinity);
         set(p, 8, 8, kInfinity);
       }},
      {"NaN in one key makes the head NaN, and no other",
       [](GraphProblem& p) {
         p.key->set({0, 1, 321, 0}, kNaN);
       }},
      {"NaN in one value makes its feature NaN",
       [](GraphProblem& p) {
         p.value->set({0, 1, 321, 2}, kNaN);
       }},
      {"NaN at edges that are left out", [&](GraphProblem& p) {
         for (Index m = 150; m < 350; ++m) {
           p.key->set({0, 1, m, 0}, kNaN);
           p.value->set({0, 0, m, 1}, kInfinity);
         }
         set(p, 3, 6, -kInfinity);
       }}};
  for (const Case& c : cases) {
    INFO(c.name);
    GraphProblem p = projected_problem(list, 2, 2, 3);
    p.add({kGraphEdgeBias});
    p.fill(10);
    c.change(p);
    check_hub(p);
  }
}

TEST_CASE("hard attention finds the largest score of a hub, of equal ones the first", "[hubs]") {
  const Index edges = many();
  EdgeList list{500, {}, {}, false};
  Random random(11);
  for (Index e = 0; e < edges; ++e) list.add(random.integer(0, 499), 499);
  for (const Index repeat : {1, 2, 250}) {
    heed_graph_attention_desc d = graph_desc(1, 1, 1);
    d.hard = 1;
    d.scale = 1;
    GraphProblem p(list, d);
    p.add({kGraphWeights});
    p.query->fill([] { return 1; });
    p.key->each([&](const Axes& at) { p.key->set(at, static_cast<double>(at[2] / repeat % 97)); });
    p.value->each([&](const Axes& at) { p.value->set(at, static_cast<double>(at[2])); });
    // Nodes 96 * repeat ... have the largest key; 250: node 499's, at 1, from node 250 on.
    const Index best = repeat == 250 ? 250 : 96 * repeat;
    std::size_t first = 0;
    while (list.sources[first] != best) ++first;
    for (const char* const isa : isa_names()) {
      const GraphOutputs got = p.run(isa);
      INFO(isa << ", " << repeat << " equal keys");
      CHECK(got.out[499] == static_cast<double>(best));
      double sum = 0;
      for (std::size_t e = 0; e < got.weights.size(); ++e) sum += got.weights[e];
      CHECK(sum == 1);
      CHECK(got.weights[first] == 1);
    }
  }
}

TEST_CASE("edges into other nodes change no bit of a node", "[hubs]") {
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

TEST_CASE("scores that climb slowly, quickly, and in steps", "[hubs]") {
  EdgeList edges{20, {}, {}, false};
  for (Index e = 0; e < 400; ++e) edges.add(e / 20, 3);
  for (const double slope : {0.02, 0.08, 0.5, 5.0, 200.0, -0.08, -5.0, -200.0})
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64}) {
      GraphProblem p = projected_problem(edges, 3, 4, 9, all_of(dtype));
      add_edge_tensors(p, 2, dtype);
      p.w_edge_key.reset();
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
