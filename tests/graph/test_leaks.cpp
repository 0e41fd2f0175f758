// What is not finite stays where attention does not go: NaN of one node never reaches a node that
// has no edge from it.
#include "tests/graph/problems.hpp"

using namespace heed_test;

namespace {

constexpr std::uint32_t kInputs[] = {HEED_GRAPH_PROJECTED, HEED_GRAPH_SHARED, HEED_GRAPH_PER_NODE};

GraphProblem projected(const EdgeList& edges, std::uint32_t dtype) {
  return projected_problem(edges, 3, 6, 5, all_of(dtype));
}

GraphProblem problem(std::uint32_t inputs, const EdgeList& edges, std::uint32_t dtype) {
  if (inputs == HEED_GRAPH_PROJECTED) return projected(edges, dtype);
  GraphProblem p(edges, 3, 6, 5);
  p.desc.inputs = inputs;
  p.add_data(7, dtype);
  p.add_matrices(dtype);
  p.add_out(dtype);
  p.want_lse();
  p.want_weights();
  p.fill(1);
  return p;
}

/// Whether node n asks node m.
bool asks(const EdgeList& edges, Index n, Index m) {
  for (std::size_t e = 0; e < edges.sources.size(); ++e)
    if (edges.sources[e] == m && edges.destinations[e] == n) return true;
  return false;
}

/// Nodes that `spoilt` says nothing about have the bits that they had before.
template <class Spoilt>
void check_rest(const GraphProblem& p, const GraphOutputs& got, const GraphOutputs& clean,
                Spoilt&& spoilt) {
  const Index nodes = p.edges.nodes;
  const Index width = value_features_of(p.desc);
  for (Index h = 0; h < p.desc.heads; ++h)
    for (Index n = 0; n < nodes; ++n) {
      const bool changed = spoilt(n);
      for (Index x = 0; x < width; ++x) {
        const auto at = static_cast<std::size_t>((h * nodes + n) * width + x);
        INFO("node " << n << ", head " << h << ", feature " << x);
        if (changed)
          CHECK(std::isnan(got.out[at]));
        else
          CHECK(got.out.bits[at] == clean.out.bits[at]);
      }
    }
}

}  // namespace

TEST_CASE("a NaN in a node reaches those that ask it and no other", "[leaks]") {
  const EdgeList edges = random_edges(30, 90, 21);
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16})
    for (const std::uint32_t inputs : kInputs)
      for (const Index bad : {0, 11, 29}) {
        GraphProblem p = problem(inputs, edges, dtype);
        std::vector<GraphOutputs> clean;
        for (const char* const isa : isa_names()) clean.push_back(p.run(isa));
        const bool data = inputs != HEED_GRAPH_PROJECTED;
        for (Index h = 0; h < (data ? 1 : 3); ++h) {
          if (data) p.data->set({0, 0, bad, 3}, kNaN);
          if (!data) p.key->set({0, h, bad, 4}, kNaN);
        }
        const GraphExpected want = p.expected();
        for (std::size_t i = 0; i < clean.size(); ++i) {
          INFO(isa_names()[i] << ": " << line_of(p) << ", NaN in node " << bad);
          const GraphOutputs got = p.run(isa_names()[i]);
          CHECK(check_outputs(p, isa_names()[i], got, want).worst() <= 1);
          const auto into = incoming(p.edges);
          check_rest(p, got, clean[i], [&](Index n) {
            const bool own = data && n == bad && !into[static_cast<std::size_t>(n)].empty();
            return own || asks(edges, n, bad);
          });
        }
      }
}

TEST_CASE("infinities and NaN in values stay in their feature and head", "[leaks]") {
  const EdgeList edges = random_edges(30, 200, 22);
  for (const double bad : {kNaN, kInfinity, -kInfinity})
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_F16})
      for (Index x = 0; x < 5; ++x) {
        GraphProblem p = projected(edges, dtype);
        p.value->set({0, x % 3, 7, x}, bad);
        check_problem(p);
      }
}

TEST_CASE("what edges of bias -inf have reaches nobody", "[leaks]") {
  EdgeList edges = random_edges(20, 300, 23);
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_F16})
    for (const double bad : {kNaN, kInfinity})
      for (const bool all_heads : {true, false})
        for (const bool hard : {false, true}) {
          GraphProblem p = projected(edges, dtype);
          add_edge_tensors(p, 3, dtype);
          p.desc.hard = hard ? 1 : 0;
          if (hard) p.lse.reset();
          p.fill(3);
          // Everything that comes from node 4 is left out, by all heads or by the first.
          const Index heads = all_heads ? 3 : 1;
          p.edge_bias->each([&](const Axes& at) {
            const bool from = p.edges.sources[static_cast<std::size_t>(at[2])] == 4;
            if (from && at[1] < heads) p.edge_bias->set(at, -kInfinity);
          });
          for (Index h = 0; h < heads; ++h) {
            p.key->set({0, h, 4, 1}, bad);
            p.value->set({0, h, 4, 2}, bad);
          }
          if (all_heads)
            for (Index e = 0; e < p.edges.size(); ++e)
              if (p.edges.sources[static_cast<std::size_t>(e)] == 4)
                p.edge_data->set({0, 0, e, 1}, bad);
          check_problem(p);
        }
}

TEST_CASE("a bias of NaN or +inf, and edge data that is not finite", "[leaks]") {
  const EdgeList edges = random_edges(20, 100, 24);
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const double bad : {kNaN, kInfinity}) {
      GraphProblem p = projected(edges, dtype);
      p.add_edge_bias();
      p.fill(4);
      p.edge_bias->set({0, 1, 17, 0}, bad);
      p.edge_bias->set({0, 2, 40, 0}, bad);
      check_problem(p);
    }
  GraphProblem p = projected(edges, HEED_DTYPE_F32);
  p.add_edge_data(4);
  p.add_edge_values();
  p.fill(5);
  p.edge_data->set({0, 0, 17, 2}, kNaN);
  check_problem(p);
}

TEST_CASE("hard attention reads no value but the one it picks", "[leaks]") {
  EdgeList edges{6, {1, 2, 3, 4, 5}, {0, 0, 0, 0, 0}, false};
  for (const char* const isa : isa_names())
    for (Index best = 1; best < 6; ++best) {
      GraphProblem p = projected(edges, HEED_DTYPE_F32);
      p.desc.hard = 1;
      p.lse.reset();
      p.query->fill([] { return 1; });
      p.key->each([&](const Axes& at) { p.key->set(at, at[2] == best ? 2 : 1); });
      p.value->each([&](const Axes& at) {
        if (at[2] != best) p.value->set(at, at[2] % 2 == 0 ? kNaN : kInfinity);
      });
      const GraphOutputs got = p.run(isa);
      for (Index h = 0; h < 3; ++h)
        for (Index x = 0; x < 5; ++x)
          CHECK(got.out[static_cast<std::size_t>(h * 30 + x)] == p.value->get({0, h, best, x}));
    }
}

TEST_CASE("matrices over edge data that are not finite reach no node without edges", "[leaks]") {
  EdgeList edges{4, {1, 1}, {0, 2}, false};
  for (const double bad : {kNaN, kInfinity}) {
    GraphProblem p = projected(edges, HEED_DTYPE_F32);
    p.add_edge_data(2);
    p.add_edge_keys();
    p.add_edge_values();
    p.fill(6);
    p.w_edge_key->fill([&] { return bad; });
    p.w_edge_value->fill([&] { return bad; });
    for (const char* const isa : isa_names()) {
      const GraphOutputs got = p.run(isa);
      CHECK(check_outputs(p, isa, got, p.expected(), Unspecified::kAllowed).worst() <= 1);
      for (Index h = 0; h < 3; ++h)
        for (const Index n : {1, 3})
          for (Index x = 0; x < 5; ++x)
            CHECK(got.out[static_cast<std::size_t>((h * 4 + n) * 5 + x)] == 0);
    }
  }
}
