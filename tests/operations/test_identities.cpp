// What attention is, whatever computes it: the same in other words, and what its outputs are of
// each other. The oracle, which nothing else is held against, must say so to the last digits, and
// heed within the oracle's bounds.
#include <functional>
#include <utility>

#include "tests/graph/problems.hpp"
#include "tests/problem/random_problems.hpp"

using namespace heed_test;

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// Far more digits than float32 has, and far fewer than the oracle.
bool near(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= 1e-11 * std::max(1.0, std::fabs(a));
}

/// Bounds that allow anything would say nothing.
void check_equal(const char* what, const std::vector<Element>& a, const std::vector<Element>& b) {
  INFO(what);
  REQUIRE(a.size() == b.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool tight = a[i].bound < 2e-3 * std::max(std::fabs(a[i].value), 1.0);
    wrong += tight && near(a[i].value, b[i].value) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

// ---- Dense attention ----

/// 200 keys are two steps.
Problem drawn(const Types& types = {}, Index queries = 30, Index keys = 200) {
  Sizes sizes = {queries, keys, 16, 12};
  sizes.query_heads = 2;
  sizes.types = types;
  Problem p = filled(sizes, at(queries));
  want_all(p);
  return p;
}

void check_equal(Problem& a, Problem& b) {
  INFO(line_of(a) << " and " << line_of(b));
  const Expected of_a = a.expected();
  const Expected of_b = b.expected();
  for (const auto output :
       {&Expected::out, &Expected::lse, &Expected::weights, &Expected::column_sums})
    check_equal("an output", of_a.*output, of_b.*output);
  check_problem(a);
  check_problem(b);
}

/// A mask that allows what allows(i, j) does.
template <class Allows>
void spell_out(Problem& p, Allows&& allows) {
  p.add_mask({1, 1, p.desc.query_length, p.desc.key_length}).fill([&](const Axes& x) {
    return allows(x[2], x[3]);
  });
}

void set_offset(Problem& p, std::uint32_t causal, Index offset) {
  p.desc.causal = causal;
  p.desc.causal_offset = causal == HEED_CAUSAL_OFFSET ? offset : 0;
}

/// One option, and others that say the same. Where it says which keys are attended, results of
/// several rows have the same bits, too, if scores are more than products: for then masked keys are
/// computed no other way than the rest.
struct Saying {
  std::string name;
  std::function<void(Problem&)> one, other;
  bool keys = true;
};

std::vector<Saying> sayings() {
  std::vector<Saying> all;
  for (const Index offset : {-7, 0, 20, 139})
    all.push_back(
        {"causal is a mask, " + std::to_string(offset),
         [=](Problem& p) { set_offset(p, HEED_CAUSAL_OFFSET, offset); },
         [=](Problem& p) { spell_out(p, [=](Index i, Index j) { return j <= i + offset; }); }});
  all.push_back({"bottom right is an offset",
                 [](Problem& p) { set_offset(p, HEED_CAUSAL_BOTTOM_RIGHT, 0); },
                 [](Problem& p) {
                   set_offset(p, HEED_CAUSAL_OFFSET, p.desc.key_length - p.desc.query_length);
                 }});
  all.push_back({"causal is a window", [](Problem& p) { set_offset(p, HEED_CAUSAL_TOP_LEFT, 0); },
                 [](Problem& p) { set_window(p, -1, 0, 0); }});
  for (const Index side : {Index{-1}, Index{200}, Index{1} << 41, INT64_MAX})
    all.push_back({"a window wider than the sequence is none",
                   [=](Problem& p) { set_window(p, side, side == -1 ? 200 : -1, 0); },
                   [](Problem&) {}});
  for (const auto& [left, right] :
       std::vector<std::pair<Index, Index>>{{0, 0}, {3, 5}, {-1, 4}, {40, -1}, {130, 20}})
    for (const Index offset : {-7, 100})
      all.push_back(
          {"a window is a mask, " + std::to_string(left) + ", " + std::to_string(right),
           [=, left = left, right = right](Problem& p) { set_window(p, left, right, offset); },
           [=, left = left, right = right](Problem& p) {
             spell_out(p, [=](Index i, Index j) {
               return (left < 0 || j >= i + offset - left) &&
                      (right < 0 || j <= i + offset + right);
             });
           }});
  for (const Index length : {1, 8, 127, 128, 199})
    all.push_back({"a length is a mask, " + std::to_string(length),
                   [=](Problem& p) {
                     const Index keys = std::min(length, p.desc.key_length);
                     p.key_lengths = {static_cast<std::int32_t>(keys)};
                   },
                   [=](Problem& p) { spell_out(p, [=](Index, Index j) { return j < length; }); }});
  all.push_back({"masks, windows, causal and lengths must all allow",
                 [](Problem& p) {
                   set_offset(p, HEED_CAUSAL_BOTTOM_RIGHT, 0);
                   p.desc.window = 1;
                   p.desc.window_left = 100;
                   p.desc.window_right = 3;  // more than causal allows
                   p.key_lengths = {static_cast<std::int32_t>(p.desc.key_length - 10)};
                   spell_out(p, [](Index i, Index j) { return (i / 3 + j / 20) % 4 != 0; });
                 },
                 [](Problem& p) {
                   const Index keys = p.desc.key_length - 10;  // which moves the bottom right
                   spell_out(p, [&](Index i, Index j) {
                     const Index position = i + keys - p.desc.query_length;
                     return (i / 3 + j / 20) % 4 != 0 && j <= position && j >= position - 100 &&
                            j < keys;
                   });
                 }});
  const auto allows = [](Index i, Index j) {
    return (i / 4 + j / 30) % 3 != 0 && (i + j) % 5 != 0;
  };
  all.push_back({"a mask is a bias", [=](Problem& p) { spell_out(p, allows); },
                 [=](Problem& p) {
                   p.add_bias(p.pairs(), HEED_DTYPE_F16).fill([&](const Axes& x) {
                     return allows(x[2], x[3]) ? 0 : -kInfinity;
                   });
                 }});
  for (const Index offset : {0, 170, -10, 300})
    all.push_back({"slopes are a bias, " + std::to_string(offset),
                   [=](Problem& p) {
                     p.slopes.numbers = {0.03125, 0.25};
                     p.desc.alignment = HEED_ALIGNMENT_OFFSET;
                     p.desc.alignment_offset = offset;
                   },
                   [=](Problem& p) {
                     p.add_bias(p.pairs()).fill([&](const Axes& x) {
                       const auto steps = static_cast<double>(std::abs(x[2] + offset - x[3]));
                       return steps * (x[1] == 0 ? -0.03125 : -0.25);  // exact
                     });
                   },
                   false});
  all.push_back({"a function may add a bias",
                 [](Problem& p) { p.function = score_function<Shift>(); },
                 [](Problem& p) {
                   p.add_bias(p.pairs()).fill([](const Axes& x) {
                     return 0.25 * Shift::steps({x[0], x[1], x[2], x[3]});
                   });
                 },
                 false});
  for (const double temperature : {0.25, 0.7, 3.0})
    all.push_back({"a temperature divides the scale",
                   [=](Problem& p) { p.desc.temperature = temperature; },
                   [=](Problem& p) { p.desc.scale = 0.25 / temperature; }, false});
  return all;
}

}  // namespace

TEST_CASE("options that say in other words what others say", "[identities]") {
  std::size_t index = 0;
  for (const Saying& saying : sayings())
    for (const Types& types : {Types{}, all_of(HEED_DTYPE_F64)})
      for (const auto& [queries, keys] :
           std::vector<std::pair<Index, Index>>{{30, 200}, {50, 20}, {60, 60}, {1, 140}}) {
        if (!keep_of_few(index++) || (small() && index % 3 != 0)) continue;
        INFO(saying.name);
        Problem a = drawn(types, queries, keys);
        Problem b = a;
        saying.one(a);
        saying.other(b);
        check_equal(a, b);
        if (!saying.keys || queries == 1) continue;
        a.desc.softcap = b.desc.softcap = 5;
        check_same(a, b);
      }
}

TEST_CASE("shared key heads are key heads repeated", "[identities]") {
  for (const Types& types : {Types{}, all_of(HEED_DTYPE_F64)}) {
    Sizes sizes = {20, 150, 16, 12, 1, 6, 2};
    sizes.types = types;
    Problem p = filled(sizes, 94);
    sizes.key_heads = 6;
    Problem q(sizes);
    q.query.assign(p.query);
    q.key.fill([&](const Axes& x) { return p.key.get({x[0], x[1] / 3, x[2], x[3]}); });
    q.value.fill([&](const Axes& x) { return p.value.get({x[0], x[1] / 3, x[2], x[3]}); });
    for (Problem* const problem : {&p, &q}) {
      want_all(*problem);
      problem->slopes.numbers = {0.01, 0.02, 0.03, 0.04, 0.05, 0.06};
      problem->sinks.numbers = {0, 1, 2, -1, -2, -3};
      problem->desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    }
    check_equal(p, q);
  }
}

// ---- Blocks ----

namespace {

Block block_of(std::uint32_t combine, std::uint32_t dtype = HEED_DTYPE_F32, Index key_heads = 2) {
  heed_multihead_desc desc = block_desc(dtype, 14);
  desc.combine = combine;
  desc.width_key = 11;
  desc.width_out = 9;
  Block block = plain_block(13, 17, 4, 7, desc, 2, key_heads, 5);
  block.fill(7);
  block.attention.want_lse();
  block.attention.want_weights(HEED_WEIGHTS_SCORES);
  return block;
}

/// What a combiner makes of a row of every head, whose elements are head(h, x).
template <class Head>
double combined(const Block& block, Index o, Head&& head) {
  double sum = block.w_out ? block.w_out->bias->get({0, 0, 0, o}) : 0;
  double largest = -kInfinity;
  for (Index h = 0; h < 4; ++h) {
    for (Index x = 0; x < 5 && block.w_out; ++x)
      sum +=
          head(h, x) * (block.combine() == HEED_COMBINE_TENSOR ? block.w_out->get(h, x, o)
                                                               : block.w_out->get(0, h * 5 + x, o));
    if (block.w_out) continue;
    largest = std::max(largest, head(h, o));
    sum +=
        head(h, o) *
        (block.combine() == HEED_COMBINE_MEAN
             ? 0.25
             : static_cast<double>(static_cast<float>(
                   block.combine() == HEED_COMBINE_MAX ? 0 : block.head_weights.numbers[at(h)])));
  }
  return block.combine() == HEED_COMBINE_MAX ? largest : sum;
}

}  // namespace

TEST_CASE("combiners make of the heads what their names say", "[identities]") {
  Block heads = block_of(HEED_COMBINE_HEADS);
  const std::vector<Element> each = heads.expected().out;
  for (const std::uint32_t combine : {HEED_COMBINE_CONCAT, HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN,
                                      HEED_COMBINE_MAX, HEED_COMBINE_TENSOR}) {
    Block block = block_of(combine);
    const std::vector<Element> out = block.expected().out;
    const Index width = block.out_width();
    for (Index i = 0; i < static_cast<Index>(out.size()); ++i) {
      const auto head = [&](Index h, Index x) {
        return each[at(i / width * 20 + h * 5 + x)].value;
      };
      INFO(name_of_combine(combine) << ", element " << i);
      CHECK(near(out[at(i)].value, combined(block, i % width, head)));
    }
    check_problem(block);
  }
}

TEST_CASE("the bounds of blocks are narrow", "[identities]") {
  // Every rounding of three products and a softmax, all in the worst direction.
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const Index length : {7, 77}) {
      Block block = plain_block(length, 0, 4, 16, block_desc(dtype, 64));
      block.fill(3);
      double loosest = 0;
      for (const Element& e : block.expected().out) loosest = std::max(loosest, e.bound);
      CHECK(loosest < 1e5 * format_of(dtype).unit);
    }
}

// As perf looks at blocks that are too large for more.
TEST_CASE("the oracle looks at single rows, and takes projections for exact if asked",
          "[identities]") {
  for (const std::uint32_t combine : kCombiners) {
    Block block = block_of(combine);
    const std::vector<Element> all = block.expected().out;
    GivenBlock given = block.given();
    given.rows = {2, 12};
    given.exact_projections = true;
    const std::vector<Element> some = expect(given).out;
    REQUIRE(some.size() == all.size());
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Index row = static_cast<Index>(i) / block.out.shape()[3] % 13;
      INFO(name_of_combine(combine) << ", element " << i << ", row " << row);
      REQUIRE(some[i].written == (row == 2 || row == 12));
      if (!some[i].written) continue;
      CHECK(near(some[i].value, all[i].value));
      CHECK(some[i].bound < all[i].bound);
    }
  }
}

// ---- Graphs ----

namespace {

/// A dense problem over the same numbers, every node a row and a key; bounds are those of graphs.
Problem dense_of(const GraphProblem& p, std::uint32_t dtype) {
  Sizes sizes = {p.edges.nodes, p.edges.nodes, p.desc.features, value_features_of(p.desc)};
  sizes.query_heads = sizes.key_heads = p.desc.heads;
  sizes.types = all_of(dtype);
  Problem dense(sizes);
  dense.query.assign(*p.query);
  dense.key.assign(*p.key);
  dense.value.assign(*p.value);
  dense.desc.scale = p.desc.scale;
  dense.desc.softcap = p.desc.softcap;
  dense.desc.temperature = p.desc.temperature;
  // Edges of the complete graph are ordered by destination, then source.
  dense.add_bias(dense.pairs()).fill([&](const Axes& x) {
    return p.edge_bias->get({0, x[1], x[2] * p.edges.nodes + x[3], 0});
  });
  dense.want_lse();
  dense.want_weights(HEED_WEIGHTS_PROBABILITIES);
  return dense;
}

}  // namespace

TEST_CASE("a complete graph is dense attention, with every option that both have", "[identities]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const Index nodes : {1, 2, 15, 37, 70})
      for (const double softcap : {0.0, 2.0})
        for (const double temperature : {0.0, 0.5, kInfinity}) {
          GraphProblem p = projected_problem(complete_graph(nodes), 3, 16, 9, all_of(dtype));
          p.add({kGraphEdgeBias});
          p.fill(9);
          p.desc.softcap = softcap;
          p.desc.temperature = temperature;
          p.desc.scale = 0.4;
          Problem dense = dense_of(p, dtype);
          const Expected got = p.expected();
          const Expected want = dense.expected();
          INFO(line_of(p));
          check_equal("out", got.out, want.out);
          check_equal("lse", got.lse, want.lse);
          check_equal("weights", got.weights, want.weights);
          check_problem(p);
        }
}
