// What attention is whatever it is computed with. Results of two problems that are the same in
// exact arithmetic lie within the sum of their bounds of each other; nothing but the bounds is
// taken from the oracle.
#include <functional>
#include <numeric>

#include "tests/dense/kinds.hpp"

using namespace heed_test;

namespace {

using Index = std::int64_t;

constexpr Index kQueries = 30;
constexpr Index kKeys = 200;  // two steps

const std::vector<Kind>& exact_kinds() {
  static const std::vector<Kind> all = {kinds()[0], kinds()[1]};
  static const std::vector<Kind> one = {kinds()[1]};  // other tests have much of float32
  return small() ? one : all;
}

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

Problem drawn(const Types& types, std::uint64_t seed, Index queries = kQueries,
              Index keys = kKeys) {
  Sizes sizes = {queries, keys, 16, 12};
  sizes.query_heads = 2;
  sizes.types = types;
  Problem p(sizes);
  p.fill(seed);
  p.want_lse();
  p.want_weights(HEED_WEIGHTS_PROBABILITIES);
  p.want_column_sums();
  return p;
}

// ---- Options that may be combined with a property ----

struct Option {
  const char* name;
  void (*set)(Problem&);
};

/// Those that do not care where a key stands.
const std::vector<Option>& free_options() {
  static const std::vector<Option> all = {
      {"plain", [](Problem&) {}},
      {"softcap", [](Problem& p) { p.desc.softcap = 3; }},
      {"temperature", [](Problem& p) { p.desc.temperature = 0.4; }},
      {"sinks",
       [](Problem& p) {
         p.sinks.numbers = {1, 4};
       }},
      {"mask",
       [](Problem& p) {
         Tensor& mask = p.add_mask(p.pairs());
         mask.each([&](const Axes& x) { mask.set(x, (x[2] / 4 + x[3] / 50) % 3 == 0 ? 0 : 1); });
       }},
      {"bias", [](Problem& p) {
         Random random(5);
         p.add_bias(p.pairs()).fill([&] {
           return random.integer(0, 9) == 0 ? -kInfinity : static_cast<double>(random.normal());
         });
       }}};
  return all;
}

/// All of them.
const std::vector<Option>& options() {
  static const std::vector<Option> all = [] {
    std::vector<Option> list = free_options();
    list.push_back({"causal", [](Problem& p) { p.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT; }});
    list.push_back({"window", [](Problem& p) {
                      p.desc.window = 1;
                      p.desc.window_left = 50;
                      p.desc.window_right = 9;
                      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
                    }});
    list.push_back({"slopes", [](Problem& p) {
                      p.slopes.numbers = {0.02, 0.05};
                      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
                    }});
    list.push_back({"lengths", [](Problem& p) { p.key_lengths = {131}; }});
    list.push_back({"function", [](Problem& p) { p.function = score_function<Shift>(); }});
    return list;
  }();
  return all;
}

template <class Check>
void check_options(const std::vector<Option>& list, Check&& check) {
  std::size_t index = 0;
  for (const Kind& kind : exact_kinds())
    for (const Option& option : list) {
      if (!keep(index++)) continue;
      INFO(kind.name << ", " << option.name);
      Problem p = drawn(kind.types, 70 + index);
      option.set(p);
      check(p);
    }
}

// ---- Two problems ----

/// Row i and key j of one problem are row rows[i] and key keys[j] of another.
struct Order {
  std::vector<Index> rows;
  std::vector<Index> keys;
};

std::vector<Index> in_order(Index size) {
  std::vector<Index> order(at(size));
  std::iota(order.begin(), order.end(), Index{0});
  return order;
}

std::vector<Index> shuffled(Index size, std::uint64_t seed) {
  std::vector<Index> order = in_order(size);
  Random random(seed);
  for (Index i = size - 1; i > 0; --i) std::swap(order[at(i)], order[at(random.integer(0, i))]);
  return order;
}

/// The index of an element of an output of shape [batch, heads, rows, columns] in another order.
std::function<std::size_t(std::size_t)> moved(const Axes& shape, const std::vector<Index>& rows,
                                              const std::vector<Index>& columns) {
  return [shape, rows, columns](std::size_t i) {
    const auto n = static_cast<Index>(i);
    const Index column = n % shape[3];
    const Index row = n / shape[3] % shape[2];
    const Index rest = n / shape[3] / shape[2];
    return at((rest * shape[2] + rows[at(row)]) * shape[3] + columns[at(column)]);
  };
}

/// All outputs of a and b are the same but for rounding, on every instruction set.
void check_equal(Problem& a, Problem& b, const Order& order) {
  const Expected want_a = a.expected_all();
  const Expected want_b = b.expected_all();
  const std::vector<Index> one = {0};
  for (const char* const isa : isa_names()) {
    INFO(isa << ": " << line_of(a) << " and " << line_of(b));
    const Outputs got_a = a.run_all(isa);
    const Outputs got_b = b.run_all(isa);
    check_close("out", got_a.out, want_a.out, got_b.out, want_b.out,
                moved(a.out.shape(), order.rows, in_order(a.out.shape()[3])));
    check_close("lse", got_a.lse, want_a.lse, got_b.lse, want_b.lse,
                moved(a.lse->shape(), order.rows, one));
    check_close("weights", got_a.weights, want_a.weights, got_b.weights, want_b.weights,
                moved(a.weights->shape(), order.rows, order.keys));
    check_close("column sums", got_a.column_sums, want_a.column_sums, got_b.column_sums,
                want_b.column_sums, moved(a.column_sums->shape(), order.keys, one));
  }
}

void check_equal(Problem& a, Problem& b) {
  check_equal(a, b, {in_order(a.desc.query_length), in_order(a.desc.key_length)});
}

void check_same_bits(Problem& a, Problem& b) {
  for (const char* const isa : isa_names())
    check_same(std::string(isa) + ": " + line_of(a) + " and " + line_of(b), a.run_all(isa),
               b.run_all(isa));
}

/// Puts row i of `from` at row order[i] of `to`.
void move_rows(const Tensor& from, const std::vector<Index>& order, Tensor& to) {
  from.each([&](const Axes& x) { to.set({x[0], x[1], order[at(x[2])], x[3]}, from.get(x)); });
}

void move_pairs(const Tensor& from, const Order& order, Tensor& to) {
  from.each([&](const Axes& x) {
    to.set({x[0], x[1], order.rows[at(x[2])], order.keys[at(x[3])]}, from.get(x));
  });
}

Problem reordered(const Problem& p, const Order& order) {
  Problem q = p;
  move_rows(p.query, order.rows, q.query);
  move_rows(p.key, order.keys, q.key);
  move_rows(p.value, order.keys, q.value);
  if (p.mask) move_pairs(*p.mask, order, *q.mask);
  if (p.bias) move_pairs(*p.bias, order, *q.bias);
  return q;
}

/// A mask that allows what allows(i, j) does.
template <class Allows>
void spell_out(Problem& p, Allows&& allows) {
  Tensor& mask = p.add_mask({1, 1, p.desc.query_length, p.desc.key_length});
  mask.each([&](const Axes& x) { mask.set(x, allows(x[2], x[3]) ? 1 : 0); });
}

/// a says by other means what b says by a mask: the same but for rounding, and the same bits where
/// scores are more than products, for then masked keys are computed no other way than the rest.
void check_spelled_out(Problem& a, Problem& b) {
  check_equal(a, b);
  a.desc.softcap = b.desc.softcap = 5;
  check_same_bits(a, b);
}

}  // namespace

// ---- Weights and what is made of them ----

TEST_CASE("the weights of a row and its sink add up to 1", "[properties]") {
  check_options(options(), [](Problem& p) {
    p.want_lse(HEED_DTYPE_F64);
    const Expected want = p.expected_all();
    for (const char* const isa : isa_names()) {
      const Outputs got = p.run_all(isa);
      for (Index row = 0; row < 2 * kQueries; ++row) {
        long double sum = 0;
        long double allowed = 0;
        for (Index j = row * kKeys; j < (row + 1) * kKeys; ++j) {
          sum += static_cast<long double>(got.weights[at(j)]);
          allowed += static_cast<long double>(want.weights[at(j)].bound);
        }
        if (!p.sinks.numbers.empty()) {
          const double share = std::exp(p.sinks.numbers[at(row / kQueries)] - got.lse[at(row)]);
          sum += static_cast<long double>(share);
          // exp and its argument are off by their last digits.
          allowed += static_cast<long double>(
              share * (std::expm1(want.lse[at(row)].bound) + 0x1p-52 * (2 + got.lse[at(row)])));
        }
        INFO(isa << ", row " << row << ": " << static_cast<double>(sum - 1) << " off 1, "
                 << static_cast<double>(allowed) << " allowed");
        CHECK(std::fabs(sum - 1) <= allowed);
        CHECK(is_tight(static_cast<double>(allowed), 1, got.weights.dtype));
      }
    }
  });
}

TEST_CASE("out is the values, weighted with the weights", "[properties]") {
  check_options(options(), [](Problem& p) {
    const Expected want = p.expected_all();
    for (const char* const isa : isa_names()) {
      const Outputs got = p.run_all(isa);
      double worst = 0;
      p.out.each([&](const Axes& x) {
        const Index row = x[1] * kQueries + x[2];
        const auto o = at(row * 12 + x[3]);
        long double sum = 0;
        long double allowed = static_cast<long double>(want.out[o].bound);
        for (Index j = 0; j < kKeys; ++j) {
          const auto w = at(row * kKeys + j);
          const auto v = static_cast<long double>(p.value.get({0, 0, j, x[3]}));
          sum += static_cast<long double>(got.weights[w]) * v;
          allowed += static_cast<long double>(want.weights[w].bound) * std::fabs(v);
        }
        const auto off = static_cast<double>(sum - static_cast<long double>(got.out[o]));
        worst = std::max(worst, distance(off, 0, static_cast<double>(allowed)));
      });
      INFO(isa);
      CHECK(worst <= 1);
    }
  });
}

TEST_CASE("column sums are the sums of the weights", "[properties]") {
  check_options(options(), [](Problem& p) {
    const Expected want = p.expected_all();
    for (const char* const isa : isa_names()) {
      const Outputs got = p.run_all(isa);
      double worst = 0;
      for (Index h = 0; h < 2; ++h)
        for (Index j = 0; j < kKeys; ++j) {
          long double sum = 0;
          auto allowed = static_cast<long double>(want.column_sums[at(h * kKeys + j)].bound);
          for (Index i = 0; i < kQueries; ++i) {
            const auto w = at((h * kQueries + i) * kKeys + j);
            sum += static_cast<long double>(got.weights[w]);
            allowed += static_cast<long double>(want.weights[w].bound);
          }
          worst =
              std::max(worst, distance(static_cast<double>(sum), got.column_sums[at(h * kKeys + j)],
                                       static_cast<double>(allowed)));
        }
      INFO(isa);
      CHECK(worst <= 1);
    }
  });
}

TEST_CASE("out lies between the smallest and the largest value", "[properties]") {
  check_options(options(), [](Problem& p) {
    if (!p.sinks.numbers.empty()) return;  // which pulls towards 0
    const Expected want = p.expected_all();
    std::vector<double> low(12, kInfinity);
    std::vector<double> high(12, -kInfinity);
    p.value.each([&](const Axes& x) {
      low[at(x[3])] = std::min(low[at(x[3])], p.value.get(x));
      high[at(x[3])] = std::max(high[at(x[3])], p.value.get(x));
    });
    for (const char* const isa : isa_names()) {
      const Numbers got = p.run_all(isa).out;
      bool between = true;
      for (std::size_t i = 0; i < got.size(); ++i)
        between = between && got[i] >= low[i % 12] - want.out[i].bound &&
                  got[i] <= high[i % 12] + want.out[i].bound;
      INFO(isa);
      CHECK(between);
    }
  });
}

// ---- Orders ----

TEST_CASE("the order of the keys does not matter", "[properties]") {
  check_options(free_options(), [](Problem& p) {
    const Order order = {in_order(kQueries), shuffled(kKeys, 1)};
    Problem q = reordered(p, order);
    check_equal(p, q, order);
  });
}

TEST_CASE("queries in another order give rows in that order", "[properties]") {
  check_options(free_options(), [](Problem& p) {
    const Order order = {shuffled(kQueries, 2), in_order(kKeys)};
    Problem q = reordered(p, order);
    check_equal(p, q, order);
  });
}

TEST_CASE("self-attention is equivariant under permutation", "[properties]") {
  for (const Kind& kind : exact_kinds()) {
    Sizes sizes = {77, 77, 16, 16};
    sizes.types = kind.types;
    Problem p(sizes);
    p.fill(81);
    p.query.each([&](const Axes& x) {
      p.key.set(x, p.query.get(x));
      p.value.set(x, p.query.get(x));
    });
    p.want_lse();
    p.want_weights(HEED_WEIGHTS_PROBABILITIES);
    p.want_column_sums();
    const std::vector<Index> order = shuffled(77, 3);
    Problem q = reordered(p, {order, order});
    check_equal(p, q, {order, order});
  }
}

// ---- Scores ----

TEST_CASE("a number added to all scores of a row moves its log-sum-exp, and nothing else",
          "[properties]") {
  check_options(free_options(), [](Problem& p) {
    if (!p.sinks.numbers.empty() || p.desc.temperature != 0) return;
    Problem q = p;
    if (!p.bias) q.add_bias(q.pairs());
    const auto shift = [](Index row) { return 12.5 * static_cast<double>(row % 5) - 25; };
    q.bias->each([&](const Axes& x) { q.bias->set(x, q.bias->get(x) + shift(x[2])); });
    const Expected want_p = p.expected_all();
    const Expected want_q = q.expected_all();
    for (const char* const isa : isa_names()) {
      INFO(isa);
      const Outputs got_p = p.run_all(isa);
      const Outputs got_q = q.run_all(isa);
      check_close("out", got_p.out, want_p.out, got_q.out, want_q.out);
      check_close("weights", got_p.weights, want_p.weights, got_q.weights, want_q.weights);
      for (std::size_t i = 0; i < got_p.lse.size(); ++i) {
        const double rounding = p.bias ? 0x1p-23 * 60 : 0;  // of the sum that was stored as bias
        CHECK(distance(got_q.lse[i] - got_p.lse[i], shift(static_cast<Index>(i) % kQueries),
                       want_p.lse[i].bound + want_q.lse[i].bound + rounding) <= 1);
      }
    }
  });
}

TEST_CASE("slopes are the bias that they stand for", "[properties]") {
  std::size_t index = 0;
  for (const Kind& kind : exact_kinds())
    for (const Index offset : {0, 170, -10, 300}) {
      if (!keep(index++)) continue;
      Problem p = drawn(kind.types, 82);
      p.slopes.numbers = {0.03125, 0.25};
      p.desc.alignment = HEED_ALIGNMENT_OFFSET;
      p.desc.alignment_offset = offset;
      Problem q = drawn(kind.types, 82);
      Tensor& bias = q.add_bias(q.pairs());
      bias.each([&](const Axes& x) {
        const auto steps = static_cast<double>(std::abs(x[2] + offset - x[3]));
        bias.set(x, -p.slopes.numbers[at(x[1])] * steps);  // exact
      });
      check_equal(p, q);
    }
}

TEST_CASE("a function that adds numbers is a bias", "[properties]") {
  for (const Kind& kind : exact_kinds()) {
    Problem p = drawn(kind.types, 83);
    p.function = score_function<Shift>();
    Problem q = drawn(kind.types, 83);
    Tensor& bias = q.add_bias(q.pairs());
    bias.each([&](const Axes& x) { bias.set(x, 0.25 * Shift::steps({x[0], x[1], x[2], x[3]})); });
    check_equal(p, q);
  }
}

TEST_CASE("a temperature divides the scale", "[properties]") {
  std::size_t index = 0;
  for (const Kind& kind : exact_kinds())
    for (const double temperature : {0.25, 0.7, 3.0}) {
      if (!keep(index++)) continue;
      Problem p = drawn(kind.types, 84);
      p.desc.temperature = temperature;
      Problem q = drawn(kind.types, 84);
      q.desc.scale = 0.25 / temperature;
      check_equal(p, q);
    }
}

TEST_CASE("towards temperature 0 attention is hard", "[properties]") {
  for (const Kind& kind : exact_kinds()) {
    Problem hard = drawn(kind.types, 85);
    hard.want_nothing_else();
    hard.desc.hard = 1;
    // Row i scores 1 with key 67 (i % 16) % 200 and at most 0 with all others, whose weights are
    // then e^-40 or less.
    hard.query.each([&](const Axes& x) { hard.query.set(x, x[3] == x[2] % 16 ? 1 : 0); });
    hard.key.each([&](const Axes& x) {
      hard.key.set(x, x[2] == 67 * x[3] % kKeys ? 4 : -0.2 * std::fabs(hard.key.get(x)));
    });
    Problem cold = hard;
    cold.desc.hard = 0;
    cold.desc.temperature = 1.0 / 40;
    const auto want_hard = hard.expected_all();
    const auto want_cold = cold.expected_all();
    for (const char* const isa : isa_names())
      check_close(isa, hard.run_all(isa).out, want_hard.out, cold.run_all(isa).out, want_cold.out);
  }
}

TEST_CASE("at infinite temperature attention is the mean", "[properties]") {
  for (const Kind& kind : exact_kinds()) {
    Problem p = drawn(kind.types, 86);
    p.desc.temperature = kInfinity;
    const Expected want = p.expected_all();
    for (const char* const isa : isa_names()) {
      const Outputs got = p.run_all(isa);
      for (Index x = 0; x < 12; ++x) {
        long double mean = 0;
        for (Index j = 0; j < kKeys; ++j)
          mean += static_cast<long double>(p.value.get({0, 0, j, x}));
        mean /= kKeys;
        for (Index row = 0; row < 2 * kQueries; ++row) {
          const double got_x = got.out[at(row * 12 + x)];
          CHECK(distance(got_x, static_cast<double>(mean),
                         want.out[at(row * 12 + x)].bound + 0x1p-53) <= 1);
        }
      }
    }
  }
}

// ---- One option by way of another ----

TEST_CASE("causal is the mask that spells it out", "[properties]") {
  std::size_t index = 0;
  for (const Kind& kind : exact_kinds())
    for (const auto& [queries, keys] :
         std::vector<std::pair<Index, Index>>{{30, 200}, {60, 60}, {50, 20}, {1, 140}})
      for (const Index offset : {-7, 0, 20, 139}) {
        if (!keep(index++)) continue;
        Problem p = drawn(kind.types, 87, queries, keys);
        Problem q = drawn(kind.types, 87, queries, keys);
        p.desc.causal = HEED_CAUSAL_OFFSET;
        p.desc.causal_offset = offset;
        spell_out(q, [offset = offset](Index i, Index j) { return j <= i + offset; });
        check_spelled_out(p, q);
      }
}

TEST_CASE("bottom right is an offset", "[properties]") {
  for (const auto& [queries, keys] :
       std::vector<std::pair<Index, Index>>{{30, 200}, {50, 20}, {60, 60}}) {
    Problem p = drawn({}, 88, queries, keys);
    p.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    Problem q = p;
    q.desc.causal = HEED_CAUSAL_OFFSET;
    q.desc.causal_offset = keys - queries;
    check_same_bits(p, q);
    p.desc.causal = q.desc.causal = HEED_CAUSAL_NONE;
    q.desc.causal_offset = 0;
    p.slopes.numbers = q.slopes.numbers = {0.1, 0.2};
    p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    q.desc.alignment = HEED_ALIGNMENT_OFFSET;
    q.desc.alignment_offset = keys - queries;
    check_same_bits(p, q);
  }
}

TEST_CASE("causal is a window with nothing to its right", "[properties]") {
  for (const Index left : {Index{-1}, Index{9}}) {
    Problem p = drawn({}, 89, 60, 200);
    p.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    p.desc.window = 1;
    p.desc.window_left = left;
    p.desc.window_right = -1;
    Problem q = p;
    q.desc.causal = HEED_CAUSAL_NONE;
    q.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    q.desc.window_right = 0;
    check_same_bits(p, q);
  }
}

TEST_CASE("a window is the mask that spells it out", "[properties]") {
  std::size_t index = 0;
  for (const Kind& kind : exact_kinds())
    for (const auto& [left, right] :
         std::vector<std::pair<Index, Index>>{{0, 0}, {3, 5}, {-1, 4}, {40, -1}, {130, 20}})
      for (const Index offset : {-7, 0, 100, 170}) {
        if (!keep(index++)) continue;
        Problem p = drawn(kind.types, 90);
        Problem q = drawn(kind.types, 90);
        p.desc.window = 1;
        p.desc.window_left = left;
        p.desc.window_right = right;
        p.desc.alignment = HEED_ALIGNMENT_OFFSET;
        p.desc.alignment_offset = offset;
        spell_out(q, [=, left = left, right = right](Index i, Index j) {
          return (left < 0 || j >= i + offset - left) && (right < 0 || j <= i + offset + right);
        });
        check_spelled_out(p, q);
      }
}

TEST_CASE("masks, windows and causal must all allow", "[properties]") {
  for (const Kind& kind : exact_kinds()) {
    Problem p = drawn(kind.types, 91);
    p.desc.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    p.desc.window = 1;
    p.desc.window_left = 100;
    p.desc.window_right = 3;  // more than causal allows
    p.key_lengths = {190};    // which moves the bottom right
    spell_out(p, [](Index i, Index j) { return (i / 3 + j / 20) % 4 != 0; });
    Problem q = drawn(kind.types, 91);
    spell_out(q, [](Index i, Index j) {
      const Index position = i + 190 - kQueries;
      return (i / 3 + j / 20) % 4 != 0 && j <= position && j >= position - 100 && j < 190;
    });
    check_spelled_out(p, q);
  }
}

TEST_CASE("lengths are the mask that spells them out", "[properties]") {
  std::size_t index = 0;
  for (const Kind& kind : exact_kinds())
    for (const std::int32_t length : {129, 1, 8, 127, 128, 199, 200}) {
      if (!keep(index++)) continue;
      Problem p = drawn(kind.types, 92);
      p.key_lengths = {length};
      Problem q = drawn(kind.types, 92);
      spell_out(q, [=](Index, Index j) { return j < length; });
      check_spelled_out(p, q);
    }
}

TEST_CASE("a mask is a bias of 0 and -inf", "[properties]") {
  std::size_t index = 0;
  for (const Kind& kind : exact_kinds())
    for (const std::uint32_t dtype : {HEED_DTYPE_DEFAULT, HEED_DTYPE_F16}) {
      if (!keep(index++)) continue;
      Problem p = drawn(kind.types, 93);
      spell_out(p, [](Index i, Index j) { return (i / 4 + j / 30) % 3 != 0 && (i + j) % 5 != 0; });
      Problem q = drawn(kind.types, 93);
      Tensor& bias = q.add_bias({1, 1, kQueries, kKeys}, dtype);
      bias.each([&](const Axes& x) { bias.set(x, p.mask->get(x) == 0 ? -kInfinity : 0); });
      check_spelled_out(p, q);
    }
}

TEST_CASE("shared key heads are key heads repeated", "[properties]") {
  for (const Kind& kind : exact_kinds()) {
    Sizes sizes = {20, 150, 16, 12};
    sizes.query_heads = 6;
    sizes.key_heads = 2;
    sizes.types = kind.types;
    Sizes repeated = sizes;
    repeated.key_heads = 6;
    Problem p(sizes);
    Problem q(repeated);
    p.fill(94);
    p.query.each([&](const Axes& x) { q.query.set(x, p.query.get(x)); });
    q.key.each([&](const Axes& x) { q.key.set(x, p.key.get({x[0], x[1] / 3, x[2], x[3]})); });
    q.value.each([&](const Axes& x) { q.value.set(x, p.value.get({x[0], x[1] / 3, x[2], x[3]})); });
    for (Problem* const problem : {&p, &q}) {
      problem->want_lse();
      problem->want_weights(HEED_WEIGHTS_PROBABILITIES);
      problem->want_column_sums();
      problem->slopes.numbers = {0.01, 0.02, 0.03, 0.04, 0.05, 0.06};
      problem->sinks.numbers = {0, 1, 2, -1, -2, -3};
      problem->desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    }
    check_equal(p, q);
  }
}
