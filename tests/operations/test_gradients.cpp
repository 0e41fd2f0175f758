// Gradients of dense attention, blocks and graphs where random problems do not go: sums longer than
// are taken at a time, ties, nothing at all, factors without a reciprocal, and what no row attends.
#include "tests/graph/problems.hpp"
#include "tests/multihead/copies.hpp"
#include "tests/support/gradients.hpp"

using namespace heed_test;

namespace {

Gradients run_first(BackwardProblem& p) { return p.run(plain_contexts()[0]); }

Sizes grouped(Index queries, Index keys, const Types& types = {}) {
  Sizes sizes = {queries, keys, 12, 9, 2, 6, 2};
  sizes.types = types;
  return sizes;
}

Block block_of(std::uint32_t combine, std::uint32_t dtype, Index queries = 11) {
  BlockChoice choice = choice_of(dtype);
  choice.combine = combine;
  choice.width_query = 13;
  choice.width_key = 9;
  choice.width_out = 10;
  Block block = plain_block(queries, 17, 4, 6, choice, 2, 2, 5);
  block.fill(30 + combine);
  return block;
}

GraphProblem with_everything(EdgeList edges, std::uint32_t inputs, const Types& types = {}) {
  heed_graph_attention_desc d = of_data(inputs, 3, 2, 5, 3);
  d.softcap = 15;
  d.temperature = 0.8;
  d.residual = 1;
  d.combine = HEED_COMBINE_WEIGHTED;
  d.steps = inputs == HEED_GRAPH_PROJECTED ? 1 : 2;
  set_types(d, types);
  GraphProblem p(std::move(edges), d);
  add_edge_tensors(p, 3, types.query);
  p.fill(9);
  p.edge_bias->each([&](const Axes& at) {
    if ((at[2] + at[1]) % 5 == 0) p.edge_bias->set(at, -kInfinity);
  });
  return p;
}

}  // namespace

TEST_CASE("gradients through factors that have no reciprocal, or are no normal numbers",
          "[backward]") {
  struct Factors {
    bool wide;
    double softcap, scale, temperature;
  };
  for (const Factors& f : {Factors{false, 1e-40, 3e-41, 1}, Factors{true, 1e-310, 3e-311, 1},
                           Factors{false, 2, 1, 1e39}, Factors{true, 1e-10, 1e-10, 1e300},
                           Factors{false, 0, 1e-30, 1e12}}) {
    const Types types = all_of(f.wide ? HEED_DTYPE_F64 : HEED_DTYPE_DEFAULT);
    const auto set = [&](auto& desc) {
      desc.softcap = f.softcap;
      desc.scale = f.scale;
      desc.temperature = f.temperature;
    };
    Problem dense = filled(grouped(20, 40, types), 21);
    set(dense.desc);
    BackwardProblem of_dense = all_gradients_of(std::move(dense));
    check_problem(of_dense);
    GraphProblem graph = with_everything(random_edges(30, 200, 4), HEED_GRAPH_PROJECTED, types);
    set(graph.desc);
    GraphBackwardProblem of_graph = all_gradients_of(std::move(graph));
    check_problem(of_graph);
  }
}

TEST_CASE("problems without rows, keys or batches have gradients of 0, or none",
          "[backward][zero]") {
  struct Case {
    Index batch, heads, key_heads, queries, keys;
    bool repeats;  ///< the bias, over what there is nothing of too
  };
  for (const Case& c : std::vector<Case>{{2, 1, 1, 0, 5, false},
                                         {2, 1, 1, 5, 0, false},
                                         {0, 1, 1, 5, 5, false},
                                         {2, 1, 1, 0, 0, false},
                                         {2, 1, 1, 0, 5, true},
                                         {2, 1, 1, 5, 0, true},
                                         {0, 1, 1, 5, 5, true},
                                         {2, 0, 0, 5, 5, true},
                                         {2, 0, 3, 5, 5, false}}) {
    Sizes sizes = {c.queries, c.keys, 4, 3, c.batch, c.heads, c.key_heads};
    Problem forward = filled(sizes, 13);
    if (c.heads > 0) forward.sinks.numbers = forward.slopes.numbers = {0.5};
    forward.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    forward.add_bias(c.repeats ? Axes{1, 1, 1, 1} : forward.pairs());
    BackwardProblem p = all_gradients_of(std::move(forward));
    INFO(line_of(p));
    check_problem(p);
    const Gradients got = run_first(p);
    for (const GradientOf gradient : {kGradKey, kGradValue, kGradScale, kGradTemperature})
      CHECK(all_are(got[gradient], 0));
    p.accumulate(3);
    check_problem(p);
    if (c.heads == 0 || c.repeats) continue;
    for (const std::uint32_t combine : kCombiners) {
      BlockChoice choice;
      choice.combine = combine;
      Block block = plain_block(c.queries, c.keys, 2, 3, choice, c.batch);
      block.fill(2);
      BlockBackward of_block = all_gradients_of(std::move(block));
      check_kept(of_block);
      const BlockGradients of = of_block.run(plain_contexts()[0]);
      for (const BlockGradientOf gradient : {kBlockWQuery, kBlockWKey, kBlockBKey, kBlockScale}) {
        CHECK(of[gradient].size() > 0);
        CHECK(all_are(of[gradient], 0));
      }
    }
  }
}

// ---- Dense attention ----

TEST_CASE("gradients of sequences longer than a split, a tile and a fold", "[backward][large]") {
  for (const auto& [queries, keys, heads] : std::vector<std::array<Index, 3>>{
           {1100, 130, 1}, {60, 4200, 1}, {3, 4300, 4}, {400, 70, 3}}) {
    if ((small() && queries > 1000) || (brief() && queries > 5)) continue;
    Sizes sizes = {queries, keys, 8, 8, 1, heads, 1};
    Problem forward = filled(sizes, 5);
    forward.desc.softcap = 20;
    BackwardProblem p = all_gradients_of(std::move(forward));
    check_problem(p);
  }
}

TEST_CASE("what is masked reaches no gradient, whatever it holds", "[backward][special]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const bool biased : {false, true}) {
      Problem forward = filled(grouped(24, 150, all_of(dtype)), 14);
      // Rows 0, 5 .. attend nothing; keys from 100 on nobody.
      const auto allowed = [](const Axes& at) {
        return at[2] % 5 != 0 && at[3] < 100 && (at[2] + at[3]) % 7 != 0;
      };
      if (biased)
        forward.add_bias({1, 1, 24, 150}).fill([&](const Axes& at) {
          return allowed(at) ? 0.25 : -kInfinity;
        });
      else
        forward.add_mask({1, 1, 24, 150}).fill(allowed);
      BackwardProblem p = all_gradients_of(std::move(forward));
      const Wanted want = wanted(p);
      const auto of_row = [](const Axes& at) { return at[2] % 5 == 0; };
      const auto of_key = [](const Axes& at) { return at[2] >= 100; };
      for (const double special : {kNaN, kInfinity}) {
        p.forward.query.set_where(of_row, special);
        p.grad_out.set_where(of_row, -special);
        p.forward.key.set_where(of_key, special);
        p.forward.value.set_where(of_key, special);
        check_problem(p, want);
      }
    }
}

TEST_CASE("a row's log-sum-exp says whether it has gradients at all", "[backward][special]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const double lse : {-kInfinity, kInfinity, kNaN}) {
      Problem forward = filled(grouped(24, 150, all_of(dtype)), 16);
      forward.desc.causal = HEED_CAUSAL_TOP_LEFT;
      forward.sinks.numbers = {0, 0, 0, 0, 0, 0};
      BackwardProblem p = all_gradients_of(std::move(forward));
      p.forward.lse->set({1, 2, 9, 0}, lse);
      check_problem(p);
      const Gradients got = run_first(p);
      const std::size_t row = ((1 * 6 + 2) * 24 + 9) * 12;
      INFO(name_of_dtype(dtype) << ", lse " << lse);
      for (std::size_t x = 0; x < 12; ++x)
        CHECK(same_number(got[kGradQuery][row + x], lse == -kInfinity ? 0 : kNaN));
    }
}

// ---- Blocks ----

TEST_CASE("the gradient of a matrix over more rows than a product takes", "[backward][large]") {
  if (small()) return;
  BlockChoice choice;
  choice.width_query = choice.width_key = choice.width_out = 5;
  choice.self = true;
  Block block = plain_block(9, 9, 1, 4, choice, 500);
  block.fill(3);
  BlockBackward p = all_gradients_of(std::move(block));
  check_kept(p);
}

// Of 9 rows, 2 to 5 belong to queries and keys, 0, 1, 6 and 7 to keys alone, and 8 to nobody.
TEST_CASE("one packed input has gradients of rows that are keys alone", "[backward]") {
  Sizes sizes = {3, 5, 6, 5};
  sizes.batch = 2;
  sizes.query_heads = 4;
  sizes.key_heads = 2;
  sizes.queries = {{2, 5, 6}, 9};
  sizes.keys = {{0, 4, 8}, 9};
  BlockChoice choice = choice_of(HEED_DTYPE_F32);
  choice.self = true;
  choice.width_query = choice.width_key = 7;
  choice.width_out = 8;
  Block block(Problem(sizes), choice);
  block.fill(3);
  BlockBackward p = all_gradients_of(std::move(block));
  check_kept(p);
  p.accumulate(4);
  check_kept(p);
}

TEST_CASE("a run that keeps has the same out and lse", "[backward][same]") {
  for (const std::uint32_t combine : kCombiners)
    for (const Index queries : {3, 16, 48}) {
      Block block = block_of(combine, HEED_DTYPE_F32, queries);
      for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64}) {
        block.attention.want_lse(dtype);
        for (std::size_t n = 0; n < plain_contexts().size(); ++n) {
          const Context& context = plain_contexts()[n];
          const Outputs want = block.run_all(context);
          heed_multihead_desc desc = block.desc();
          desc.keep = 1;
          const MultiheadPlan plan = make_plan(context, desc);
          Workspace kept(describe(plan).kept_bytes);
          CHECK(kept.bytes() > 0);
          heed_multihead_args args = block.args();
          args.kept = kept.get();
          args.kept_bytes = kept.bytes();
          block.out.clear();
          block.attention.lse->clear();
          require_ok(heed_multihead(context.get(), &desc, &args));
          CHECK(kept.intact());
          check_same("out", block.out.numbers(), want.out);
          check_same("lse", block.attention.lse->numbers(), want.lse);
        }
      }
    }
}

TEST_CASE("of equal heads the first has the gradient of the largest", "[backward]") {
  Block block = block_of(HEED_COMBINE_MAX, HEED_DTYPE_F32);
  // All heads share one matrix, so that they are the same.
  block.w_value.each([&](Index m, Index i, Index o) { block.w_value.set(m, i, o, 1); });
  block.w_value.bias->fill([] { return 0; });
  block.w_query.each([&](Index m, Index i, Index o) { block.w_query.set(m, i, o, 0); });
  block.w_query.bias->fill([] { return 0; });
  BlockBackward p = all_gradients_of(std::move(block));
  const BlockGradients got = p.run(plain_contexts()[0]);
  for (std::size_t i = 0; i < got[kBlockBValue].size(); ++i)
    CHECK((got[kBlockBValue][i] == 0) == (i >= 5));  // the other key head's features
}

// ---- Graphs ----

TEST_CASE("gradients of two edges, by hand", "[backward]") {
  // Node 2 attends to nodes 0 and 1 with weights p and 1 - p: out = p v_0 + (1 - p) v_1.
  EdgeList edges{3, {}, {}, false};
  edges.add(0, 2);
  edges.add(1, 2);
  const double q = 0.5;
  const double k[] = {1, -1, 0};
  const double v[] = {2, 5, 0};
  GraphProblem wide = projected_problem(edges, 1, 1, 1, all_of(HEED_DTYPE_F64));
  wide.desc.scale = 1;
  wide.query->fill([&] { return q; });
  wide.key->fill([&](const Axes& at) { return k[at[2]]; });
  wide.value->fill([&](const Axes& at) { return v[at[2]]; });
  GraphBackwardProblem p(std::move(wide));
  p.grad_out.fill([] { return 1.0; });
  p.want_all();
  const double a = std::exp(q * k[0]) / (std::exp(q * k[0]) + std::exp(q * k[1]));
  const double out = a * v[0] + (1 - a) * v[1];
  const double s[] = {a * (v[0] - out), (1 - a) * (v[1] - out)};
  const GraphGradients got = p.run(make_context(isa_names().back()));
  const auto check = [&](GraphGradientOf of, const std::array<double, 3>& want) {
    for (std::size_t n = 0; n < 3; ++n)
      CHECK((want[n] == 0 ? got[of][n] == 0 : std::fabs(got[of][n] - want[n]) < 1e-14));
  };
  check(kGraphQuery, {0, 0, s[0] * k[0] + s[1] * k[1]});
  check(kGraphKey, {s[0] * q, s[1] * q, 0});
  check(kGraphValue, {a, 1 - a, 0});
}

TEST_CASE("a bias that more heads share than a panel has, has the gradient of all", "[backward]") {
  for (const Index heads : {3, 61, 130}) {
    GraphProblem p(random_edges(9, 40, 3), graph_desc(heads, 2, 1));
    p.desc.edge_bias.stride_row = 1;
    p.add({kGraphEdgeBias});
    p.fill(7);
    GraphBackwardProblem gradients = all_gradients_of(std::move(p));
    check_problem(gradients);
  }
}

// A float32 beside such a log-sum-exp has lost digits that probabilities show.
TEST_CASE("gradients over a graph of nodes whose log-sum-exps are far from 0", "[backward]") {
  GraphProblem graph = projected_problem(random_edges(30, 200, 4), 2, 8, 4);
  graph.query->each([&](const Axes& at) { graph.query->set(at, 2000 * graph.query->get(at)); });
  GraphBackwardProblem p = all_gradients_of(std::move(graph));
  check_problem(p);
}

TEST_CASE("gradients of hubs against the oracle", "[backward][hubs]") {
  const Index count = small() ? 26000 : 60000;
  // A node that edges lead to and one that they lead from, both of which are cut into pieces.
  EdgeList edges = random_edges(400, count, 3);
  for (std::size_t e = 0; e < edges.sources.size(); ++e) {
    if (e % 3 == 0) edges.destinations[e] = 7;
    if (e % 3 == 1) edges.sources[e] = 200;
  }
  for (const std::uint32_t inputs : {HEED_GRAPH_PROJECTED, HEED_GRAPH_SHARED}) {
    if (brief() && inputs == HEED_GRAPH_PROJECTED) continue;
    GraphBackwardProblem p = all_gradients_of(with_everything(edges, inputs));
    check_problem(p, wanted(p, count / 8192 + 1));
  }
}
