// What attention is whatever it is computed with.
#include "tests/dense/properties.hpp"

using namespace heed_test;

// ---- Weights and what is made of them ----

TEST_CASE("the weights of a row and its sink add up to 1", "[properties]") {
  check_options(options(), [](Problem& p) {
    p.want_lse(HEED_DTYPE_F64);
    const Expected want = p.expected_all();
    on_every_isa(p, [&](const Outputs& got) {
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
        INFO("row " << row << ": " << static_cast<double>(sum - 1) << " off 1, "
                    << static_cast<double>(allowed) << " allowed");
        CHECK(std::fabs(sum - 1) <= allowed);
        CHECK(is_tight(static_cast<double>(allowed), 1, got.weights.dtype));
      }
    });
  });
}

TEST_CASE("out is the values, weighted with the weights", "[properties]") {
  check_options(options(), [](Problem& p) {
    const Expected want = p.expected_all();
    on_every_isa(p, [&](const Outputs& got) {
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
      CHECK(worst <= 1);
    });
  });
}

TEST_CASE("column sums are the sums of the weights", "[properties]") {
  check_options(options(), [](Problem& p) {
    const Expected want = p.expected_all();
    on_every_isa(p, [&](const Outputs& got) {
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
      CHECK(worst <= 1);
    });
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
    on_every_isa(p, [&](const Outputs& got) {
      bool between = true;
      for (std::size_t i = 0; i < got.out.size(); ++i)
        between = between && got.out[i] >= low[i % 12] - want.out[i].bound &&
                  got.out[i] <= high[i % 12] + want.out[i].bound;
      CHECK(between);
    });
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
    Problem p = filled(sizes, 81);
    p.key.assign(p.query);
    p.value.assign(p.query);
    want_all(p);
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
    q.add_bias(q.pairs()).fill([&](const Axes& x) {
      return 0.25 * Shift::steps({x[0], x[1], x[2], x[3]});
    });
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
    hard.query.fill([&](const Axes& x) { return x[3] == x[2] % 16; });
    hard.key.fill([&](const Axes& x) {
      return x[2] == 67 * x[3] % kKeys ? 4 : -0.2 * std::fabs(hard.key.get(x));
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
    on_every_isa(p, [&](const Outputs& got) {
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
    });
  }
}
