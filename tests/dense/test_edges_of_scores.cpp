// Scores at their edges: without end, everything alike, at hardly any temperature, beyond a type.
#include <numeric>

#include "tests/dense/edges.hpp"

using namespace heed_test;

// ---- Scores far out ----

TEST_CASE("a soft cap on scores of every size", "[edges]") {
  Report report("softcap");
  std::size_t index = 0;
  for (const Kind& kind : kinds())
    for (const double softcap : {1e-3, 0.5, 30.0, 1e4})
      for (const double reach : {1e-6, 1.0, 50.0, 6e4}) {
        if (!keep(index++)) continue;
        std::vector<double> scores = mild(150);
        for (double& s : scores) s *= reach;
        Problem p = scored(scores, 3, kind.types);
        p.desc.softcap = softcap;
        want_all(p);
        INFO("scores up to " << reach);
        check_problem(p, &report);
        p.want_weights(HEED_WEIGHTS_CAPPED, HEED_DTYPE_F64);
        on_every_isa(p, [&](const Outputs& got) {
          const double most = p.query.dtype() == HEED_DTYPE_F64
                                  ? softcap
                                  : static_cast<double>(static_cast<float>(softcap));
          for (std::size_t i = 0; i < got.weights.size(); ++i)
            CHECK(std::fabs(got.weights[i]) <= most);
        });
      }
}

TEST_CASE("a soft cap makes infinite scores finite", "[edges]") {
  for (const Kind& kind : kinds()) {
    std::vector<double> scores = mild(150);
    scores[3] = scores[140] = kInfinity;
    scores[70] = -kInfinity;
    Problem p = scored(scores, 3, kind.types);
    p.desc.softcap = 4;
    check_all(p);
    p.want_weights(HEED_WEIGHTS_CAPPED);
    check_problem(p);
  }
}

TEST_CASE("scores of +inf share the weight evenly, in every output", "[edges]") {
  for (const Kind& kind : kinds())
    for (const std::vector<std::size_t>& places :
         std::vector<std::vector<std::size_t>>{{0}, {149}, {3, 4, 140, 141}, {128, 130}}) {
      std::vector<double> scores = mild(150);
      for (const std::size_t j : places) scores[j] = kInfinity;
      scores[77] = -kInfinity;
      Problem p = scored(scores, 20, kind.types);
      check_all(p);
      const double share = 1 / static_cast<double>(places.size());  // a power of two
      on_every_isa(p, [&](const Outputs& got) {
        CHECK(all_are(got.lse, kInfinity));
        for (std::size_t j = 0; j < 150; ++j) {
          const bool infinite = scores[j] == kInfinity;
          CHECK(got.weights[j] == (infinite ? share : 0));
          CHECK(got.column_sums[j] == (infinite ? 20 * share : 0));
        }
      });
    }
}

TEST_CASE("scores of -inf get weight 0, and nothing else leaves nothing", "[edges]") {
  for (const Kind& kind : kinds()) {
    std::vector<double> scores = mild(150);
    for (std::size_t j = 0; j < 150; j += 2) scores[j] = -kInfinity;
    Problem some = scored(scores, 20, kind.types);
    check_all(some);
    Problem all = scored(std::vector<double>(150, -kInfinity), 20, kind.types);
    check_all(all);
    all.sinks.numbers = {0.75};
    check_problem(all);
    on_every_isa(all, [&](const Outputs& got) {
      CHECK(all_are(got.weights, 0));
      CHECK(std::fabs(got.lse[0] - 0.75) < 1e-6);
    });
  }
}

TEST_CASE("scores that overflow, in the types that can", "[edges]") {
  for (const Kind& kind : with_range())
    for (const double sign : {1.0, -1.0}) {
      const double huge = kind.types.query == HEED_DTYPE_F64 ? 1e308 : 3e38;
      std::vector<double> scores = mild(150);
      scores[5] = scores[131] = sign * huge;
      Problem p = scored(scores, 20, kind.types);
      p.query.fill([] { return 5; });
      check_all(p);
    }
}

TEST_CASE("biases that are not finite, where rows attend", "[edges]") {
  std::size_t index = 0;
  for (const Kind& kind : kinds())
    for (const std::uint32_t dtype :
         {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16, HEED_DTYPE_F16})
      for (const double special : {kNaN, kInfinity, -kInfinity}) {
        if (!keep(index++)) continue;
        Problem p = filled(sizes_of(9, 150, kind.types), 51);
        p.add_bias({1, 1, 9, 150}, dtype).fill([&](const Axes& at) {
          return at[2] > 0 && at[3] % (at[2] * 20) == 1 ? special : 0.5;
        });
        check_all(p, nullptr, Unspecified::kAllowed);
      }
}

TEST_CASE("the lowest finite biases are scores", "[edges]") {
  // Where all keys of a row have one, the rest of the score is lost beside it and the weight is
  // shared evenly, even if times log2(e) it is too low for the arithmetic.
  Problem p = filled(sizes_of(8, 150), 58);
  p.value.fill([] { return 3; });
  p.add_bias({1, 1, 8, 1}).fill([&](const Axes& at) {
    return at[2] % 2 == 0 ? -1e38 : -format_of(0).largest;
  });
  p.want_lse(HEED_DTYPE_F64);
  on_every_isa(p, [&](const Outputs& got) {
    for (std::size_t i = 0; i < 8; ++i) {
      CHECK(std::fabs(got.out[i * 11] - 3) < 1e-5);
      CHECK(got.lse[i] < -0.99e38);
    }
  });
}

TEST_CASE("a bias of -inf masks at any temperature", "[edges]") {
  for (const Kind& kind : kinds())
    for (const double temperature : {1e-3, 1.0, 1e30, kInfinity}) {
      Problem p = filled(sizes_of(9, 150, kind.types), 52, 0.25F);
      p.value.set_where([&](const Axes& at) { return at[2] % 3 == 0; }, kNaN);
      p.add_bias({1, 1, 1, 150}).fill([&](const Axes& at) {
        return at[3] % 3 == 0 ? -kInfinity : 0.25;
      });
      p.desc.temperature = temperature;
      check_all(p);
    }
}

// ---- Temperature ----

TEST_CASE("an infinite temperature makes all attended keys alike", "[edges]") {
  for (const Kind& kind : kinds()) {
    Problem p = filled(sizes_of(20, 150, kind.types), 53, 3);
    p.desc.temperature = kInfinity;
    p.desc.softcap = 10;
    p.desc.alignment = HEED_ALIGNMENT_TOP_LEFT;
    p.slopes.numbers = {2};
    p.add_mask({1, 1, 20, 150}).fill([&](const Axes& at) { return at[3] % (at[2] + 1) == 0; });
    check_all(p);
    on_every_isa(p, [&](const Outputs& got) {
      INFO(kind.name);
      for (std::size_t i = 0; i < 20; ++i) {
        const double keys = std::ceil(150 / static_cast<double>(i + 1));
        CHECK(std::fabs(got.lse[i] - std::log(keys)) < 1e-6);
        for (std::size_t j = 0; j < 150; ++j)
          if (j % (i + 1) == 0) CHECK(got.weights.bits[i * 150 + j] == got.weights.bits[i * 150]);
      }
    });
    p.sinks.numbers = {1.5};
    check_problem(p);
    p.want_weights(HEED_WEIGHTS_MASKED);  // as at any other temperature
    check_problem(p);
    p.function = score_function<Halve>();
    check_problem(p);
  }
}

TEST_CASE("temperatures from hardly any to hardly infinite", "[edges]") {
  std::size_t index = 0;
  for (const Kind& kind : kinds())
    for (const double temperature : {1e-6, 1e-3, 0.1, 10.0, 1e6, 1e30, 1e37}) {
      if (!keep(index++)) continue;
      Problem p = filled(sizes_of(20, 150, kind.types), 54);
      p.desc.temperature = temperature;
      check_all(p, nullptr, Unspecified::kAllowed);
    }
}

// ---- Hard attention ----

TEST_CASE("hard attention gives one key all, and the lowest of equal ones", "[edges]") {
  for (const Kind& kind : kinds())
    for (const std::vector<std::size_t>& best :
         std::vector<std::vector<std::size_t>>{{0}, {149}, {127, 128}, {3, 64, 140}, {130, 131}}) {
      std::vector<double> scores = mild(150);
      for (const std::size_t j : best) scores[j] = 50;
      Problem p = scored(scores, 20, kind.types);
      p.desc.hard = 1;
      check_all(p);
      on_every_isa(p, [&](const Outputs& got) {
        INFO("key " << best[0]);
        for (std::size_t j = 0; j < 150; ++j) {
          CHECK(got.weights[2850 + j] == (j == best[0] ? 1 : 0));  // the last row's
          CHECK(got.column_sums[j] == (j == best[0] ? 20 : 0));
        }
        for (Index x = 0; x < 5; ++x)
          CHECK(got.out[static_cast<std::size_t>(x)] ==
                rounded(p.value.get({0, 0, static_cast<Index>(best[0]), x}),
                        format_of(got.out.dtype)));
      });
    }
}

TEST_CASE("hard attention among infinities and NaN", "[edges]") {
  for (const Kind& kind : kinds()) {
    std::vector<double> infinite = mild(150);
    infinite[9] = -kInfinity;
    infinite[131] = infinite[140] = kInfinity;
    std::vector<double> nan = infinite;
    nan[140] = kNaN;
    for (const auto& scores : {infinite, nan, std::vector<double>(150, -kInfinity)}) {
      Problem p = scored(scores, 20, kind.types);
      p.desc.hard = 1;
      check_all(p);
    }
  }
}

TEST_CASE("hard attention after masks, caps and biases", "[edges]") {
  std::size_t index = 0;
  for (const Kind& kind : kinds())
    for (const heed_weights_point point : {HEED_WEIGHTS_SCORES, HEED_WEIGHTS_CAPPED,
                                           HEED_WEIGHTS_MASKED, HEED_WEIGHTS_PROBABILITIES}) {
      if (!keep(index++)) continue;
      Problem p = filled(sizes_of(30, 300, kind.types), 55);
      p.desc.hard = 1;
      p.desc.softcap = 2;
      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
      p.slopes.numbers = {0.03};
      p.add_mask(p.pairs()).fill(
          [&](const Axes& at) { return (at[2] / 4 + at[3] / 128) % 3 == 0 ? 0 : 1; });
      p.add_bias({1, 1, 1, 300}).fill([&](const Axes& at) {
        return at[3] % 5 == 0 ? -kInfinity : 0.5;
      });
      want_all(p, point);
      check_problem(p);
    }
}

// ---- Narrow outputs ----

TEST_CASE("16-bit outputs overflow to infinity, past half a digit more than the largest number",
          "[edges]") {
  const std::vector<std::pair<double, double>> numbers = {{65504, 65504},     {65518, 65504},
                                                          {65522, kInfinity}, {1e6, kInfinity},
                                                          {-65518, -65504},   {-65522, -kInfinity}};
  Sizes sizes = sizes_of(1, 1, {0, 0, 0, HEED_DTYPE_F16});
  sizes.value_features = static_cast<Index>(numbers.size());
  Problem p = filled(sizes, 56);
  p.value.fill([&](const Axes& at) { return numbers[static_cast<std::size_t>(at[3])].first; });
  check_problem(p);
  on_every_isa(p, [&](const Outputs& got) {
    for (std::size_t x = 0; x < numbers.size(); ++x) CHECK(got.out[x] == numbers[x].second);
  });
}

TEST_CASE("16-bit weights overflow at the points that show scores", "[edges]") {
  for (const Kind& kind : with_range())
    for (const heed_weights_point point : {HEED_WEIGHTS_SCORES, HEED_WEIGHTS_MASKED}) {
      std::vector<double> scores = mild(150);
      scores[3] = 1e5;
      scores[4] = -1e5;
      scores[5] = 65504;
      scores[140] = 3e38;
      Problem p = scored(scores, 3, kind.types);
      for (const std::uint32_t dtype : {HEED_DTYPE_F16, HEED_DTYPE_BF16}) {
        p.want_weights(point, dtype);
        p.want_column_sums(dtype);
        // Float64 weights of scores near 3e38 nobody can bound; the scores can be.
        check_problem(p, nullptr, Unspecified::kAllowed);
      }
    }
}

TEST_CASE("column sums of more rows than float16 can count", "[edges]") {
  if (small()) return;
  Sizes sizes = {70000, 1, 1, 1};
  for (const std::uint32_t dtype : {HEED_DTYPE_F16, HEED_DTYPE_BF16, HEED_DTYPE_F32}) {
    Problem p = filled(sizes, 57);
    p.want_column_sums(dtype);
    check_problem(p);
    CHECK(std::isinf(p.column_sums->get({0, 0, 0, 0})) == (dtype == HEED_DTYPE_F16));
  }
}

TEST_CASE("a float32 log-sum-exp of float64 attention", "[edges]") {
  Problem p = scored(mild(150), 3, all_of(HEED_DTYPE_F64));
  p.want_lse(HEED_DTYPE_F32);
  check_problem(p);
  p.key.fill([] { return 1e300; });  // fits no float32
  for (const char* const isa : isa_names()) CHECK(all_are(p.run_all(isa).lse, 0x1.fffffcp127));
  p.key.fill([] { return -1e300; });
  for (const char* const isa : isa_names()) CHECK(all_are(p.run_all(isa).lse, -0x1.fffffep127));
}
