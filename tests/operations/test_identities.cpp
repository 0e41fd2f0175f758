// What attention is, whatever computes it: the same in other words, and what its outputs are of
// each other. The oracle, which nothing else is held against, must say so to the last digits, and
// heed within the oracle's bounds.
#include <functional>
#include <numeric>
#include <utility>

#include "tests/graph/problems.hpp"
#include "tests/multihead/copies.hpp"
#include "tests/problem/random_forms.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// Far more digits than float32 has, and far fewer than the oracle.
bool near(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= 1e-11 * std::max(1.0, std::fabs(a));
}

std::vector<Index> in_order(Index size) {
  std::vector<Index> order(at(size));
  std::iota(order.begin(), order.end(), Index{0});
  return order;
}

std::vector<Index> shuffled(Index size, std::uint64_t seed) {
  Random random(seed);
  const std::vector<std::size_t> order = random_order(at(size), random);
  return {order.begin(), order.end()};
}

/// Row i and column j of every matrix of a are row rows[i] and column columns[j] of b. Bounds that
/// allow anything would say nothing.
void check_equal(const char* what, const std::vector<Element>& a, const std::vector<Element>& b,
                 const std::vector<Index>& rows, const std::vector<Index>& columns) {
  INFO(what);
  REQUIRE(a.size() == b.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::size_t matrix = i / (rows.size() * columns.size()) * rows.size();
    const std::size_t row = matrix + at(rows[i / columns.size() % rows.size()]);
    const Element& other = b[row * columns.size() + at(columns[i % columns.size()])];
    const bool tight = a[i].bound < 2e-3 * std::max(std::fabs(a[i].value), 1.0);
    wrong += tight && near(a[i].value, other.value) ? 0 : 1;
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

/// Row i and key j of one problem are row rows[i] and key keys[j] of the other.
void check_equal(Problem& a, Problem& b, const std::vector<Index>& rows,
                 const std::vector<Index>& keys) {
  INFO(line_of(a) << " and " << line_of(b));
  const Expected of_a = a.expected_all();
  const Expected of_b = b.expected_all();
  check_equal("out", of_a.out, of_b.out, rows, in_order(value_features_of(a.desc)));
  check_equal("lse", of_a.lse, of_b.lse, rows, {0});
  check_equal("weights", of_a.weights, of_b.weights, rows, keys);
  check_equal("column sums", of_a.column_sums, of_b.column_sums, keys, {0});
  check_problem(a);
  check_problem(b);
}

void check_equal(Problem& a, Problem& b) {
  check_equal(a, b, in_order(a.desc.query_length), in_order(a.desc.key_length));
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

Problem reordered(const Problem& p, const std::vector<Index>& rows,
                  const std::vector<Index>& keys) {
  Problem q = p;
  const auto move = [](const Tensor& from, const std::vector<Index>& order, Tensor& to) {
    from.each([&](const Axes& x) { to.set({x[0], x[1], order[at(x[2])], x[3]}, from.get(x)); });
  };
  move(p.query, rows, q.query);
  move(p.key, keys, q.key);
  move(p.value, keys, q.value);
  const auto move_pairs = [&](const std::optional<Tensor>& from, std::optional<Tensor>& to) {
    if (!from) return;
    from->each([&](const Axes& x) {
      to->set({x[0], x[1], rows[at(x[2])], keys[at(x[3])]}, from->get(x));
    });
  };
  move_pairs(p.mask, q.mask);
  move_pairs(p.bias, q.bias);
  return q;
}

/// Everything for which it does not matter where a key stands.
void add_free_options(Problem& p) {
  p.desc.softcap = 3;
  p.desc.temperature = 0.4;
  p.sinks.numbers = {1, 4};
  spell_out(p, [](Index i, Index j) { return (i / 4 + j / 50) % 3 != 0; });
  Random random(5);
  p.add_bias(p.pairs()).fill([&] {
    return random.integer(0, 9) == 0 ? -kInfinity : static_cast<double>(random.normal());
  });
}

/// A random problem whose weights are all there, batch by batch; nothing: it is another kind.
std::optional<Problem> with_weights(std::uint64_t seed) {
  Problem p = RandomForms(seed).draw();
  const heed_attention_desc& d = p.desc;
  if (d.hard != 0 || d.packed_queries > 0 || d.packed_keys > 0 || d.pages > 0 || p.key_scales ||
      p.value_scales)
    return std::nullopt;
  p.want_nothing_else();
  p.want_lse(HEED_DTYPE_F64);
  p.want_weights(HEED_WEIGHTS_PROBABILITIES, HEED_DTYPE_F64);
  p.want_column_sums(HEED_DTYPE_F64);
  return p;
}

/// Sums of a column or row, and whether they can be known.
struct Total {
  long double sum = 0;
  long double bound = 0;

  void add(const Element& e, double factor = 1) {
    if (factor == 0 && std::isfinite(e.value)) return;
    sum += static_cast<long double>(e.value) * static_cast<long double>(factor);
    bound += static_cast<long double>(e.bound) * std::fabs(static_cast<long double>(factor));
  }
  /// Rounding to float64, and to a type of 16 bits where there is one, is within the bound.
  bool is(double x, double own_bound) const {
    if (!std::isfinite(bound) || !std::isfinite(own_bound) || std::isnan(x)) return true;
    return std::fabs(sum - static_cast<long double>(x)) <=
           1e-3L * (bound + static_cast<long double>(own_bound)) + 1e-11L * (1 + std::fabs(sum));
  }
};

/// How many rows and columns of weights are not what out, lse and column sums say.
std::size_t wrong_totals(Problem& p) {
  const Expected want = p.expected_all();
  const heed_attention_desc& d = p.desc;
  const Index keys = d.key_length;
  const Index width = value_features_of(d);
  const Index group = key_heads_of(d) == 0 ? 1 : d.query_heads / key_heads_of(d);
  std::vector<Total> columns(want.column_sums.size());
  std::size_t wrong = 0;
  for (Index row = 0; row < d.batch * d.query_heads * d.query_length; ++row) {
    const Index head = row / d.query_length;
    const Element* const weights = want.weights.data() + row * keys;
    const Element& lse = want.lse[at(row)];
    Total all;
    for (Index j = 0; j < keys; ++j) all.add(weights[j]);
    for (Index j = 0; j < keys; ++j) columns[at(head * keys + j)].add(weights[j]);
    const double given =
        p.sinks.numbers.empty() ? -kInfinity : p.sinks.numbers[at(head % d.query_heads)];
    const double sink = is_float64(d) ? given : static_cast<double>(static_cast<float>(given));
    if (std::isfinite(lse.value) && lse.value > -1e6) {
      all.sum += std::exp(static_cast<long double>(sink) - lse.value);
      wrong += all.is(1, lse.bound) ? 0 : 1;
    }
    for (Index x = 0; x < width; ++x) {
      Total value;
      for (Index j = 0; j < keys; ++j)
        value.add(weights[j],
                  p.value.get({head / d.query_heads, head % d.query_heads / group, j, x}));
      const Element& out = want.out[at(row * width + x)];
      wrong += !std::isfinite(value.sum) || value.is(out.value, out.bound) ? 0 : 1;
    }
  }
  for (std::size_t i = 0; i < columns.size(); ++i)
    wrong += columns[i].is(want.column_sums[i].value, want.column_sums[i].bound) ? 0 : 1;
  return wrong;
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

TEST_CASE("the order of queries is that of rows, and that of keys does not matter",
          "[identities]") {
  for (const Types& types : {Types{}, all_of(HEED_DTYPE_F64)})
    for (const bool options : {false, true}) {
      Problem p = drawn(types);
      if (options) add_free_options(p);
      const std::vector<Index> rows = shuffled(30, 1);
      const std::vector<Index> keys = shuffled(200, 2);
      Problem q = reordered(p, rows, keys);
      check_equal(p, q, rows, keys);
    }
}

TEST_CASE("a number added to all scores of a row moves its log-sum-exp, and nothing else",
          "[identities]") {
  Problem p = drawn();
  p.add_bias(p.pairs()).fill(
      [](const Axes& x) { return (x[3] * 7 + x[2]) % 9 == 0 ? -kInfinity : 0; });
  Problem q = p;
  const auto shift = [](Index row) { return 12.5 * static_cast<double>(row % 5) - 25; };
  q.bias->each([&](const Axes& x) { q.bias->set(x, q.bias->get(x) + shift(x[2])); });
  const Expected before = p.expected_all();
  const Expected after = q.expected_all();
  check_equal("out", before.out, after.out, {0}, in_order(12));
  check_equal("weights", before.weights, after.weights, {0}, in_order(200));
  for (std::size_t i = 0; i < before.lse.size(); ++i)
    CHECK(near(after.lse[i].value, before.lse[i].value + shift(static_cast<Index>(i) % 30)));
  check_problem(q);
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

TEST_CASE("weights add up to 1 with the sink, to column sums, and times values to out",
          "[identities]") {
  std::size_t seen = 0;
  for (std::uint64_t seed = 1; seed <= count(1500); ++seed) {
    std::optional<Problem> p = with_weights(seed);
    if (!p) continue;
    ++seen;
    INFO("seed " << seed << ": " << line_of(*p));
    CHECK(wrong_totals(*p) == 0);
  }
  CHECK((small() || seen > 500));
}

// ---- Blocks ----

namespace {

Block block_of(std::uint32_t combine, std::uint32_t dtype = HEED_DTYPE_F32, Index key_heads = 2) {
  BlockChoice choice = choice_of(dtype);
  choice.combine = combine;
  choice.width_query = 14;
  choice.width_key = 11;
  choice.width_out = 9;
  Block block = plain_block(13, 17, 4, 7, choice, 2, key_heads, 5);
  block.fill(7);
  block.attention.want_lse();
  block.attention.want_weights(HEED_WEIGHTS_SCORES);
  return block;
}

/// Of two blocks whose elements lie alike.
void check_equal(Block& a, Block& b) {
  const Expected of_a = a.expected();
  const Expected of_b = b.expected();
  for (const auto output : {&Expected::out, &Expected::lse, &Expected::weights})
    check_equal("a block", of_a.*output, of_b.*output, {0}, {0});
  check_problem(a);
  check_problem(b);
}

/// What a combiner makes of a row of every head, whose elements are head(h, x).
template <class Head>
double combined(const Block& block, Index o, Head&& head) {
  double sum = block.w_out ? block.w_out->bias->get({0, 0, 0, o}) : 0;
  double largest = -kInfinity;
  for (Index h = 0; h < 4; ++h) {
    for (Index x = 0; x < 5 && block.w_out; ++x)
      sum += head(h, x) * (block.choice.combine == HEED_COMBINE_TENSOR
                               ? block.w_out->get(h, x, o)
                               : block.w_out->get(0, h * 5 + x, o));
    if (block.w_out) continue;
    largest = std::max(largest, head(h, o));
    sum += head(h, o) *
           (block.choice.combine == HEED_COMBINE_MEAN
                ? 0.25
                : static_cast<double>(static_cast<float>(block.choice.combine == HEED_COMBINE_MAX
                                                             ? 0
                                                             : block.head_weights.numbers[at(h)])));
  }
  return block.choice.combine == HEED_COMBINE_MAX ? largest : sum;
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

TEST_CASE("the largest of heads of which one is NaN is NaN", "[identities]") {
  for (const Index h : {0, 1, 2, 3}) {
    Block block = block_of(HEED_COMBINE_MAX);
    block.w_query.set(0, 3, h * 7 + 2, kNaN);  // that head's queries
    for (const Element& element : block.expected().out) CHECK(std::isnan(element.value));
    check_problem(block);
  }
}

TEST_CASE("a bias is a row of the matrix, for a feature that is 1", "[identities]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64}) {
    Block block = block_of(HEED_COMBINE_CONCAT, dtype);
    BlockChoice choice = block.choice;
    ++choice.width_query;
    ++choice.width_key;
    for (MatrixChoice* const w : {&choice.w_query, &choice.w_key, &choice.w_value}) w->bias = false;
    Block wider(block.attention, choice);
    const auto add_ones = [](const Tensor& from, Tensor& to) {
      to.fill([&](const Axes& x) { return x[3] < from.shape()[3] ? from.get(x) : 1; });
    };
    add_ones(block.input_query, wider.input_query);
    add_ones(*block.input_key, *wider.input_key);
    const auto add_row = [](const WeightMatrix& from, WeightMatrix& to) {
      to.each([&](Index m, Index i, Index o) {
        to.set(m, i, o, i < from.in() ? from.get(m, i, o) : from.bias->get({0, 0, 0, o}));
      });
    };
    add_row(block.w_query, wider.w_query);
    add_row(block.w_key, wider.w_key);
    add_row(block.w_value, wider.w_value);
    wider.w_out.emplace(*block.w_out);
    check_equal(block, wider);
  }
}

TEST_CASE("query heads in a row share a key head", "[identities]") {
  Block grouped = block_of(HEED_COMBINE_CONCAT);
  Block written = block_of(HEED_COMBINE_CONCAT, HEED_DTYPE_F32, 4);
  written.w_query = WeightMatrix(grouped.w_query);
  written.w_out.emplace(*grouped.w_out);
  written.input_query = Tensor(grouped.input_query);
  written.input_key.emplace(*grouped.input_key);
  const auto repeat = [](const WeightMatrix& from, WeightMatrix& to, Index width) {
    const auto column = [&](Index o) { return o / width / 2 * width + o % width; };
    to.each([&](Index m, Index i, Index o) { to.set(m, i, o, from.get(m, i, column(o))); });
    for (Index o = 0; o < to.out(); ++o)
      to.bias->set({0, 0, 0, o}, from.bias->get({0, 0, 0, column(o)}));
  };
  repeat(grouped.w_key, written.w_key, 7);
  repeat(grouped.w_value, written.w_value, 5);
  check_equal(grouped, written);
}

TEST_CASE("a block of identities is plain attention", "[identities]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const Index key_heads : {1, 3}) {
      BlockChoice choice = choice_of(dtype);
      choice.width_query = choice.width_out = 36;
      choice.width_key = key_heads * 12;
      Block block = plain_block(31, 37, 3, 12, choice, 2, key_heads);
      block.fill(11);
      for (WeightMatrix* const w : {&block.w_query, &block.w_key, &block.w_value, &*block.w_out}) {
        w->fill_identity();
        w->bias->fill([] { return 0; });
      }
      Sizes sizes = {31, 37, 12, 12, 2, 3, key_heads};
      sizes.types = all_of(dtype);
      Problem dense(sizes);
      const auto cut_heads = [](const Tensor& input, Tensor& to) {
        to.fill([&](const Axes& x) { return input.get({x[0], 0, x[2], x[1] * 12 + x[3]}); });
      };
      cut_heads(block.input_query, dense.query);
      cut_heads(*block.input_key, dense.key);
      cut_heads(*block.input_key, dense.value);
      for (Problem* const p : {&dense, &block.attention}) {
        p->want_lse();
        p->want_weights(HEED_WEIGHTS_PROBABILITIES);
        p->desc.softcap = 2;
        p->key_lengths = {5, 37};
        spell_out(*p, [](Index i, Index j) { return (i + 2 * j) % 3 != 0; });
      }
      const Expected want = dense.expected_all();
      const Expected got = block.expected();
      check_equal("lse", got.lse, want.lse, {0}, {0});
      check_equal("weights", got.weights, want.weights, {0}, {0});
      std::size_t n = 0, wrong = 0;
      block.out.each([&](const Axes& x) {  // [batch, row, head, feature] there
        const Index row = (x[0] * 3 + x[3] / 12) * 31 + x[2];
        wrong += near(got.out[n++].value, want.out[at(row * 12 + x[3] % 12)].value) ? 0 : 1;
      });
      CHECK(wrong == 0);
      check_problem(block);
    }
}

TEST_CASE("a matrix per head is one matrix for all heads side by side, bit for bit",
          "[identities]") {
  const IsaContexts contexts;
  for (const bool prepared : {false, true}) {
    BlockChoice choice;
    choice.width_out = 21;
    choice.w_out.prepared = prepared;
    Block concat = plain_block(19, 23, 3, 5, choice, 2, 3, 9);
    concat.fill(22);
    for (const Arrangement arrangement : {Arrangement::kDefault, Arrangement::kTransposed,
                                          Arrangement::kBatchInside, Arrangement::kPadded}) {
      choice.combine = HEED_COMBINE_TENSOR;
      choice.w_out.arrangement = arrangement;
      Block tensor = plain_block(19, 23, 3, 5, choice, 2, 3, 9);
      tensor.fill(22);
      tensor.w_out->each([&](Index m, Index i, Index o) {
        tensor.w_out->set(m, i, o, concat.w_out->get(0, m * 9 + i, o));
      });
      tensor.w_out->bias.emplace(*concat.w_out->bias);
      for (std::size_t i = 0; i < contexts.size(); ++i)
        check_same(std::string(IsaContexts::name(i)) + ", " + name_of(arrangement),
                   tensor.run_all(contexts[i]).out, concat.run_all(contexts[i]).out);
    }
  }
}

TEST_CASE("the bounds of blocks are narrow", "[identities]") {
  // Every rounding of three products and a softmax, all in the worst direction.
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64})
    for (const Index length : {7, 77}) {
      BlockChoice choice = choice_of(dtype);
      choice.self = true;
      choice.width_query = choice.width_key = choice.width_out = 64;
      Block block = plain_block(length, length, 4, 16, choice);
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

/// The same graph with other numbers for its nodes: row n is row to[n].
GraphProblem renamed(const GraphProblem& problem, const std::vector<Index>& to) {
  GraphProblem p = problem;
  for (auto* const ends : {&p.edges.sources, &p.edges.destinations})
    for (Index& n : *ends) n = to[at(n)];
  for (const auto tensor :
       {&GraphProblem::query, &GraphProblem::key, &GraphProblem::value, &GraphProblem::data}) {
    if (!(problem.*tensor)) continue;
    (problem.*tensor)->each([&](const Axes& x) {
      (p.*tensor)->set({x[0], x[1], to[at(x[2])], x[3]}, (problem.*tensor)->get(x));
    });
  }
  return p;
}

void check_renamed(GraphProblem& p) {
  const std::vector<Index> to = shuffled(p.edges.nodes, 3);
  GraphProblem other = renamed(p, to);
  const GraphExpected a = p.expected();
  const GraphExpected b = other.expected();
  check_equal("out", a.out, b.out, to, in_order(value_features_of(p.desc)));
  check_equal("lse", a.lse, b.lse, to, {0});
  check_equal("weights", a.weights, b.weights, {0}, {0});
  check_problem(p);
  check_problem(other);
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
          const GraphExpected got = p.expected();
          const Expected want = dense.expected_all();
          INFO(line_of(p));
          check_equal("out", got.out, want.out, {0}, {0});
          check_equal("lse", got.lse, want.lse, {0}, {0});
          check_equal("weights", got.weights, want.weights, {0}, {0});
          check_problem(p);
        }
}

TEST_CASE("results move with the nodes", "[identities]") {
  for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64}) {
    GraphProblem p = projected_problem(random_edges(40, 300, 1), 3, 7, 5, all_of(dtype), 2);
    check_renamed(p);
  }
  GraphProblem steps(random_edges(30, 100, 4), of_data(HEED_GRAPH_SHARED, 8, 2, 6, 4));
  steps.desc.residual = 1;
  steps.desc.steps = 2;
  add_edge_tensors(steps, 3);
  steps.add({kGraphLse, kGraphWeights});
  steps.fill(5, 0.5);
  check_renamed(steps);
}

TEST_CASE("weights of each node and head add up to 1, or 0", "[identities]") {
  GraphProblem p = projected_problem(random_edges(60, 200, 12), 4, 6, 1, {}, 13);
  const std::vector<Element> weights = p.expected().weights;
  const std::vector<std::vector<Index>> into = incoming(p.edges);
  for (Index h = 0; h < 4; ++h)
    for (const std::vector<Index>& edges : into) {
      double sum = 0;
      for (const Index e : edges) sum += weights[at(h * p.edges.size() + e)].value;
      CHECK(near(sum, edges.empty() ? 0 : 1));
    }
}
