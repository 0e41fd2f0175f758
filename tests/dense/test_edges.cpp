// Forms at their edges: nothing to attend, one key, everything alike, scores without end.
#include <numeric>

#include "tests/dense/kinds.hpp"

using namespace heed_test;

namespace {

using Index = std::int64_t;

Sizes sizes_of(Index queries, Index keys, const Types& types = {}) {
  Sizes sizes = {queries, keys, 9, 11};
  sizes.types = types;
  return sizes;
}

void want_all(Problem& p, heed_weights_point point = HEED_WEIGHTS_PROBABILITIES) {
  if (p.desc.hard == 0) p.want_lse();
  p.want_weights(point);
  p.want_column_sums();
}

bool all_are(const Numbers& numbers, double x) {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!(numbers[i] == x) || std::signbit(numbers[i]) != std::signbit(x)) return false;
  return true;
}

// ---- Nothing to attend ----

/// Something after which no row attends anything.
struct Void {
  const char* name;
  void (*prepare)(Problem&);
};

void look_elsewhere(Problem& p, Index left, Index right, Index offset) {
  p.desc.window = 1;
  p.desc.window_left = left;
  p.desc.window_right = right;
  p.desc.alignment = HEED_ALIGNMENT_OFFSET;
  p.desc.alignment_offset = offset;
}

const std::vector<Void>& voids() {
  static const std::vector<Void> all = {
      {"mask", [](Problem& p) { p.add_mask(p.pairs()).fill([] { return 0; }); }},
      {"one mask for all",
       [](Problem& p) {
         p.add_mask({1, 1, 1, 1}).fill([] { return 0; });
       }},
      {"bias", [](Problem& p) { p.add_bias(p.pairs()).fill([] { return -kInfinity; }); }},
      {"one bias for all",
       [](Problem& p) {
         p.add_bias({1, 1, 1, 1}, HEED_DTYPE_F16).fill([] { return -kInfinity; });
       }},
      {"a bias too low for its arithmetic",
       [](Problem& p) {
         if (p.query.dtype() == HEED_DTYPE_F64)
           p.add_bias({1, 1, 1, 1}).fill([] { return -kInfinity; });
         else
           p.add_bias({1, 1, 1, 1}, HEED_DTYPE_F64).fill([] { return -1e300; });
       }},
      {"causal",
       [](Problem& p) {
         p.desc.causal = HEED_CAUSAL_OFFSET;
         p.desc.causal_offset = -p.desc.query_length;
       }},
      {"window before the keys", [](Problem& p) { look_elsewhere(p, -1, 5, -1000); }},
      {"window after the keys", [](Problem& p) { look_elsewhere(p, 5, -1, 1000); }},
      {"lengths",
       [](Problem& p) {
         p.key_lengths = {0, 0};
       }},
      {"mask and window that exclude each other", [](Problem& p) {
         look_elsewhere(p, 400, 100, 0);
         Tensor& mask = p.add_mask({1, 1, 1, p.desc.key_length});
         mask.each([&](const Axes& at) { mask.set(at, at[3] > 130 ? 1 : 0); });
       }}};
  return all;
}

/// 21 rows and 150 keys of NaN, none of which may be seen.
Problem blind(const Void& nothing, const Types& types) {
  Sizes sizes = sizes_of(21, 150, types);
  sizes.batch = 2;
  sizes.query_heads = 2;
  Problem p(sizes);
  for (Tensor* const tensor : {&p.query, &p.key, &p.value}) tensor->fill([] { return kNaN; });
  nothing.prepare(p);
  return p;
}

void check_nothing(Problem& p, const IsaContexts& contexts) {
  for (const heed_weights_point point : {HEED_WEIGHTS_PROBABILITIES, HEED_WEIGHTS_MASKED}) {
    want_all(p, point);
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      INFO(IsaContexts::name(n) << ", " << line_of(p));
      const Outputs got = p.run_all(contexts[n]);
      CHECK(all_are(got.out, 0));
      CHECK(all_are(got.column_sums, 0));
      CHECK(all_are(got.weights, point == HEED_WEIGHTS_MASKED ? -kInfinity : 0));
      if (p.lse) CHECK(all_are(got.lse, -kInfinity));
    }
  }
}

/// A problem whose weights show themselves: one feature, scale 1, scores as given.
Problem scored(const std::vector<double>& scores, Index queries, const Types& types) {
  Sizes sizes = {queries, static_cast<Index>(scores.size()), 1, 5};
  sizes.scale = 1;
  sizes.types = types;
  Problem p(sizes);
  p.fill(41);
  p.query.fill([] { return 1; });
  p.key.each([&](const Axes& at) { p.key.set(at, scores[static_cast<std::size_t>(at[2])]); });
  return p;
}

/// The types whose largest numbers are beyond those of float16.
const std::vector<Kind>& with_range() {
  static const std::vector<Kind> all = {
      {"f32", {}}, {"f64", all_of(HEED_DTYPE_F64)}, {"bf16", all_of(HEED_DTYPE_BF16)}};
  return all;
}

/// n scores, small and different.
std::vector<double> mild(std::size_t n) {
  std::vector<double> scores(n);
  for (std::size_t j = 0; j < n; ++j) scores[j] = 0.25 * static_cast<double>(j * 7 % 11) - 1;
  return scores;
}

}  // namespace

TEST_CASE("rows that attend nothing: exact zeros and a log-sum-exp of -inf", "[edges]") {
  const IsaContexts contexts;
  std::size_t index = 0;
  for (const Void& nothing : voids())
    for (const Kind& kind : kinds())
      for (const std::uint32_t hard : {0U, 1U}) {
        if (!keep(index++)) continue;
        INFO(nothing.name << ", " << kind.name);
        Problem p = blind(nothing, kind.types);
        p.desc.hard = hard;
        check_nothing(p, contexts);
      }
}

TEST_CASE("rows that attend nothing, however scores are made", "[edges]") {
  const IsaContexts contexts;
  std::size_t index = 0;
  for (const Void& nothing : voids()) {
    if (!keep(index++)) continue;
    INFO(nothing.name);
    Problem p = blind(nothing, {});
    p.desc.softcap = 5;
    p.desc.temperature = kInfinity;
    p.function = score_function<Shift>();
    p.slopes.numbers = {1, 2};
    if (p.desc.causal == HEED_CAUSAL_NONE && p.desc.alignment == 0)
      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    check_nothing(p, contexts);
  }
}

TEST_CASE("a sink is all that an empty row has", "[edges]") {
  const IsaContexts contexts;
  std::size_t index = 0;
  for (const Void& nothing : voids())
    for (const double sink : {0.0, -3.25, 80.0, -1e4, 1e30, kInfinity, -kInfinity}) {
      if (!keep(index++)) continue;
      INFO(nothing.name << ", sink " << sink);
      Problem p = blind(nothing, {});
      p.sinks.numbers = {sink, 1};
      want_all(p);
      for (std::size_t n = 0; n < contexts.size(); ++n) {
        INFO(IsaContexts::name(n));
        const Outputs got = p.run_all(contexts[n]);
        CHECK(all_are(got.out, 0));
        CHECK(all_are(got.weights, 0));
        CHECK(all_are(got.column_sums, 0));
        // Times log2(e), rounded, and back, rounded: the sum beside it is 1, its logarithm 0.
        CHECK(distance(got.lse[0], sink, 2.01 * 0x1p-24 * std::fabs(sink)) <= 1);
        CHECK(distance(got.lse[21], 1, 2.01 * 0x1p-24) <= 1);
      }
    }
}

TEST_CASE("lengths of 0 beside others", "[edges]") {
  std::size_t index = 0;
  for (const Kind& kind : kinds())
    for (const std::uint32_t causal : {HEED_CAUSAL_NONE, HEED_CAUSAL_BOTTOM_RIGHT})
      for (const heed_weights_point point :
           {HEED_WEIGHTS_SCORES, HEED_WEIGHTS_MASKED, HEED_WEIGHTS_PROBABILITIES}) {
        if (!keep(index++)) continue;
        Sizes sizes = sizes_of(7, 140, kind.types);
        sizes.batch = 5;
        sizes.query_heads = 2;
        sizes.causal = causal;
        Problem p(sizes);
        p.fill(42);
        p.key_lengths = {0, 140, 1, 0, 7};
        want_all(p, point);
        check_problem(p);
      }
}

TEST_CASE("packed sequences that are empty", "[edges]") {
  const std::vector<std::vector<std::int32_t>> queries = {
      {0, 0, 5, 5, 12}, {0, 7, 7, 7, 7}, {3, 3, 3, 3, 10}, {0, 0, 0, 0, 0}, {0, 5, 7, 9, 12}};
  const std::vector<std::vector<std::int32_t>> keys = {
      {0, 9, 9, 140, 140}, {0, 0, 0, 0, 0}, {0, 0, 140, 140, 150}, {2, 2, 12, 12, 12}};
  std::size_t index = 0;
  for (const auto& q : queries)
    for (const auto& k : keys)
      for (const Kind& kind : kinds()) {
        if (!keep(index++)) continue;
        Sizes sizes = sizes_of(7, 140, kind.types);
        sizes.batch = 4;
        sizes.query_heads = 2;
        sizes.queries = {q};
        sizes.keys = {k};
        if (index % 2 == 0) sizes.causal = HEED_CAUSAL_BOTTOM_RIGHT;
        Problem p(sizes);
        p.fill(43);
        if (index % 3 == 0) p.sinks.numbers = {0.5, -0.5};
        want_all(p);
        check_problem(p);
      }
}

// ---- Blocks ----

TEST_CASE("masked blocks and masked tiles, over several steps of keys", "[edges]") {
  Report report("masked blocks");
  std::size_t index = 0;
  for (const Index rows : {1, 4, 16, 50})
    for (const Index keys : {64, 128, 130, 256})
      for (const bool as_bias : {false, true}) {
        if (!keep(index++)) continue;
        Problem p(sizes_of(60, 400, kinds()[index % kinds().size()].types));
        p.fill(44 + index);
        Tensor& tensor = as_bias ? p.add_bias(p.pairs()) : p.add_mask(p.pairs());
        tensor.each([&](const Axes& at) {
          // Every third block of rows starts late, every third ends early, some see nothing.
          const Index block = at[2] / rows + at[3] / keys;
          const bool attends = block % 3 != 0 && at[2] / rows % 7 != 6;
          tensor.set(at, as_bias ? (attends ? 0.5 : -kInfinity) : (attends ? 1 : 0));
        });
        want_all(p);
        INFO("blocks of " << rows << " x " << keys);
        check_problem(p, &report);
      }
}

TEST_CASE("masks that leave each row one key", "[edges]") {
  for (const Kind& kind : kinds())
    for (const Index queries : {1, 50}) {
      Problem p(sizes_of(queries, 300, kind.types));
      p.fill(45);
      Tensor& mask = p.add_mask(p.pairs());
      mask.each([&](const Axes& at) { mask.set(at, at[3] == at[2] * 67 % 300 ? 255 : 0); });
      want_all(p);
      check_problem(p);
      p.want_nothing_else();
      p.desc.hard = 1;
      check_problem(p);
    }
}

// ---- Windows and offsets ----

TEST_CASE("windows wider than the sequence are none", "[edges]") {
  const IsaContexts contexts;
  for (const Index queries : {60, 1, 200}) {
    if (small() && queries != 60) break;
    Problem p(sizes_of(queries, 200));
    p.fill(46);
    want_all(p);
    p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    std::vector<Outputs> without;
    for (std::size_t n = 0; n < contexts.size(); ++n) without.push_back(p.run_all(contexts[n]));
    p.desc.window = 1;
    for (const Index side : {Index{-1}, Index{200}, Index{1} << 41, INT64_MAX - 1, INT64_MAX}) {
      p.desc.window_left = side;
      p.desc.window_right = side == -1 ? 200 : -1;
      for (std::size_t n = 0; n < contexts.size(); ++n)
        check_same(std::string(IsaContexts::name(n)) + ": " + line_of(p), p.run_all(contexts[n]),
                   without[n]);
    }
  }
}

TEST_CASE("windows of one key", "[edges]") {
  for (const Kind& kind : kinds()) {
    Problem p(sizes_of(140, 140, kind.types));
    p.fill(47);
    p.desc.window = 1;
    want_all(p);
    check_problem(p);
  }
}

TEST_CASE("windows and offsets that leave the first or last rows nothing", "[edges]") {
  std::size_t index = 0;
  for (const Index offset : {-29, -13, -1, 0, 120, 130, 140, 149})
    for (const auto& [left, right] :
         std::vector<std::pair<Index, Index>>{{-1, 0}, {0, -1}, {3, 2}, {0, 0}, {40, 0}, {0, 40}}) {
      if (!keep(index++)) continue;
      Problem p(sizes_of(30, 150, kinds()[index % kinds().size()].types));
      p.fill(48);
      look_elsewhere(p, left, right, offset);
      want_all(p);
      check_problem(p);
      if (right != 0) continue;  // the same, but for the window's left
      p.desc.alignment = HEED_ALIGNMENT_DEFAULT;
      p.desc.alignment_offset = 0;
      p.desc.causal = HEED_CAUSAL_OFFSET;
      p.desc.causal_offset = offset;
      check_problem(p);
    }
}

// ---- One key, and many heads ----

TEST_CASE("one key", "[edges]") {
  for (const Kind& kind : kinds())
    for (const Index queries : {1, 30}) {
      Problem p(sizes_of(queries, 1, kind.types));
      p.fill(49);
      want_all(p);
      check_problem(p);
      p.desc.softcap = 2;
      p.desc.temperature = 0.3;
      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
      p.slopes.numbers = {0.5};
      p.sinks.numbers = {1};
      p.add_bias({1, 1, queries, 1}).fill([] { return -1.5; });
      check_problem(p);
      p.desc.causal = HEED_CAUSAL_TOP_LEFT;
      p.desc.alignment = 0;
      check_problem(p);
    }
}

TEST_CASE("71 query heads on one key head, with all that heads have of their own", "[edges]") {
  for (const Kind& kind : kinds())
    for (const Index queries : {1, 3}) {
      if (small() && (queries > 1 || kind.types.query != 0)) continue;
      Sizes sizes = sizes_of(queries, 140, kind.types);
      sizes.query_heads = 71;
      Problem p(sizes);
      p.fill(50);
      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
      for (int h = 0; h < 71; ++h) {
        p.slopes.numbers.push_back(0.01 * h);
        p.sinks.numbers.push_back(0.1 * h - 3);
      }
      Tensor& mask = p.add_mask({1, 71, 1, 140});
      mask.each([&](const Axes& at) { mask.set(at, (at[1] + at[3] / 20) % 4 == 0 ? 0 : 1); });
      Tensor& bias = p.add_bias({1, 71, queries, 1});
      bias.each([&](const Axes& at) { bias.set(at, 0.125 * static_cast<double>(at[1] - 30)); });
      want_all(p);
      check_problem(p);
    }
}

// ---- Scores far out ----

TEST_CASE("a soft cap on scores of every size", "[edges]") {
  Report report("softcap");
  const IsaContexts contexts;
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
        for (std::size_t n = 0; n < contexts.size(); ++n) {
          const Numbers capped = p.run_all(contexts[n]).weights;
          const double most = p.query.dtype() == HEED_DTYPE_F64
                                  ? softcap
                                  : static_cast<double>(static_cast<float>(softcap));
          for (std::size_t i = 0; i < capped.size(); ++i) CHECK(std::fabs(capped[i]) <= most);
        }
      }
}

TEST_CASE("a soft cap makes infinite scores finite", "[edges]") {
  for (const Kind& kind : kinds()) {
    std::vector<double> scores = mild(150);
    scores[3] = scores[140] = kInfinity;
    scores[70] = -kInfinity;
    Problem p = scored(scores, 3, kind.types);
    p.desc.softcap = 4;
    want_all(p);
    check_problem(p);
    p.want_weights(HEED_WEIGHTS_CAPPED);
    check_problem(p);
  }
}

TEST_CASE("scores of +inf share the weight evenly, in every output", "[edges]") {
  const IsaContexts contexts;
  for (const Kind& kind : kinds())
    for (const std::vector<std::size_t>& places :
         std::vector<std::vector<std::size_t>>{{0}, {149}, {3, 4, 140, 141}, {128, 130}}) {
      std::vector<double> scores = mild(150);
      for (const std::size_t j : places) scores[j] = kInfinity;
      scores[77] = -kInfinity;
      Problem p = scored(scores, 20, kind.types);
      want_all(p);
      check_problem(p);
      const double share = 1 / static_cast<double>(places.size());  // a power of two
      for (std::size_t n = 0; n < contexts.size(); ++n) {
        INFO(IsaContexts::name(n) << ", " << line_of(p));
        const Outputs got = p.run_all(contexts[n]);
        CHECK(all_are(got.lse, kInfinity));
        for (std::size_t j = 0; j < 150; ++j) {
          const bool infinite = scores[j] == kInfinity;
          CHECK(got.weights[j] == (infinite ? share : 0));
          CHECK(got.column_sums[j] == (infinite ? 20 * share : 0));
        }
      }
    }
}

TEST_CASE("scores of -inf get weight 0, and nothing else leaves nothing", "[edges]") {
  const IsaContexts contexts;
  for (const Kind& kind : kinds()) {
    std::vector<double> scores = mild(150);
    for (std::size_t j = 0; j < 150; j += 2) scores[j] = -kInfinity;
    Problem some = scored(scores, 20, kind.types);
    want_all(some);
    check_problem(some);
    Problem all = scored(std::vector<double>(150, -kInfinity), 20, kind.types);
    want_all(all);
    check_problem(all);
    all.sinks.numbers = {0.75};
    check_problem(all);
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      INFO(IsaContexts::name(n));
      const Outputs got = all.run_all(contexts[n]);
      CHECK(all_are(got.weights, 0));
      CHECK(std::fabs(got.lse[0] - 0.75) < 1e-6);
    }
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
      want_all(p);
      check_problem(p);
    }
}

TEST_CASE("biases that are not finite, where rows attend", "[edges]") {
  std::size_t index = 0;
  for (const Kind& kind : kinds())
    for (const std::uint32_t dtype :
         {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16, HEED_DTYPE_F16})
      for (const double special : {kNaN, kInfinity, -kInfinity}) {
        if (!keep(index++)) continue;
        Problem p(sizes_of(9, 150, kind.types));
        p.fill(51);
        Tensor& bias = p.add_bias({1, 1, 9, 150}, dtype);
        bias.each([&](const Axes& at) {
          bias.set(at, at[2] > 0 && at[3] % (at[2] * 20) == 1 ? special : 0.5);
        });
        want_all(p);
        check_problem(p, nullptr, Unspecified::kAllowed);
      }
}

TEST_CASE("the lowest finite biases are scores", "[edges]") {
  // Where all keys of a row have one, the rest of the score is lost beside it and the weight is
  // shared evenly, even if times log2(e) it is too low for the arithmetic.
  const IsaContexts contexts;
  Problem p(sizes_of(8, 150));
  p.fill(58);
  p.value.fill([] { return 3; });
  Tensor& bias = p.add_bias({1, 1, 8, 1});
  bias.each([&](const Axes& at) { bias.set(at, at[2] % 2 == 0 ? -1e38 : -format_of(0).largest); });
  p.want_lse(HEED_DTYPE_F64);
  for (std::size_t n = 0; n < contexts.size(); ++n) {
    INFO(IsaContexts::name(n));
    const Outputs got = p.run_all(contexts[n]);
    for (std::size_t i = 0; i < 8; ++i) {
      CHECK(std::fabs(got.out[i * 11] - 3) < 1e-5);
      CHECK(got.lse[i] < -0.99e38);
    }
  }
}

TEST_CASE("a bias of -inf masks at any temperature", "[edges]") {
  const IsaContexts contexts;
  for (const Kind& kind : kinds())
    for (const double temperature : {1e-3, 1.0, 1e30, kInfinity}) {
      Problem p(sizes_of(9, 150, kind.types));
      p.fill(52, 0.25F);
      p.value.each([&](const Axes& at) {
        if (at[2] % 3 == 0) p.value.set(at, kNaN);
      });
      Tensor& bias = p.add_bias({1, 1, 1, 150});
      bias.each([&](const Axes& at) { bias.set(at, at[3] % 3 == 0 ? -kInfinity : 0.25); });
      p.desc.temperature = temperature;
      want_all(p);
      check_problem(p);
    }
}

// ---- Temperature ----

TEST_CASE("an infinite temperature makes all attended keys alike", "[edges]") {
  const IsaContexts contexts;
  for (const Kind& kind : kinds()) {
    Problem p(sizes_of(20, 150, kind.types));
    p.fill(53, 3);
    p.desc.temperature = kInfinity;
    p.desc.softcap = 10;
    p.desc.alignment = HEED_ALIGNMENT_TOP_LEFT;
    p.slopes.numbers = {2};
    Tensor& mask = p.add_mask({1, 1, 20, 150});
    mask.each([&](const Axes& at) { mask.set(at, at[3] % (at[2] + 1) == 0 ? 1 : 0); });
    want_all(p);
    check_problem(p);
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      INFO(IsaContexts::name(n) << ", " << kind.name);
      const Outputs got = p.run_all(contexts[n]);
      for (std::size_t i = 0; i < 20; ++i) {
        const double keys = std::ceil(150 / static_cast<double>(i + 1));
        CHECK(std::fabs(got.lse[i] - std::log(keys)) < 1e-6);
        for (std::size_t j = 0; j < 150; ++j)
          if (j % (i + 1) == 0) CHECK(got.weights.bits[i * 150 + j] == got.weights.bits[i * 150]);
      }
    }
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
      Problem p(sizes_of(20, 150, kind.types));
      p.fill(54);
      p.desc.temperature = temperature;
      want_all(p);
      check_problem(p, nullptr, Unspecified::kAllowed);
    }
}

// ---- Hard attention ----

TEST_CASE("hard attention gives one key all, and the lowest of equal ones", "[edges]") {
  const IsaContexts contexts;
  for (const Kind& kind : kinds())
    for (const std::vector<std::size_t>& best :
         std::vector<std::vector<std::size_t>>{{0}, {149}, {127, 128}, {3, 64, 140}, {130, 131}}) {
      std::vector<double> scores = mild(150);
      for (const std::size_t j : best) scores[j] = 50;
      Problem p = scored(scores, 20, kind.types);
      p.desc.hard = 1;
      want_all(p);
      check_problem(p);
      for (std::size_t n = 0; n < contexts.size(); ++n) {
        INFO(IsaContexts::name(n) << ", " << line_of(p) << ", key " << best[0]);
        const Outputs got = p.run_all(contexts[n]);
        for (std::size_t j = 0; j < 150; ++j) {
          CHECK(got.weights[19 * 150 + j] == (j == best[0] ? 1 : 0));
          CHECK(got.column_sums[j] == (j == best[0] ? 20 : 0));
        }
        for (Index x = 0; x < 5; ++x)
          CHECK(got.out[static_cast<std::size_t>(x)] ==
                rounded(p.value.get({0, 0, static_cast<Index>(best[0]), x}),
                        format_of(got.out.dtype)));
      }
    }
}

TEST_CASE("hard attention among infinities and NaN", "[edges]") {
  for (const Kind& kind : kinds()) {
    std::vector<double> scores = mild(150);
    scores[9] = -kInfinity;
    scores[131] = scores[140] = kInfinity;
    Problem p = scored(scores, 20, kind.types);
    p.desc.hard = 1;
    want_all(p);
    check_problem(p);
    Problem none = scored(std::vector<double>(150, -kInfinity), 20, kind.types);
    none.desc.hard = 1;
    want_all(none);
    check_problem(none);
    scores[140] = kNaN;
    Problem nan = scored(scores, 20, kind.types);
    nan.desc.hard = 1;
    want_all(nan);
    check_problem(nan);
  }
}

TEST_CASE("hard attention after masks, caps and biases", "[edges]") {
  std::size_t index = 0;
  for (const Kind& kind : kinds())
    for (const heed_weights_point point : {HEED_WEIGHTS_SCORES, HEED_WEIGHTS_CAPPED,
                                           HEED_WEIGHTS_MASKED, HEED_WEIGHTS_PROBABILITIES}) {
      if (!keep(index++)) continue;
      Problem p(sizes_of(30, 300, kind.types));
      p.fill(55);
      p.desc.hard = 1;
      p.desc.softcap = 2;
      p.desc.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
      p.slopes.numbers = {0.03};
      Tensor& mask = p.add_mask(p.pairs());
      mask.each([&](const Axes& at) { mask.set(at, (at[2] / 4 + at[3] / 128) % 3 == 0 ? 0 : 1); });
      Tensor& bias = p.add_bias({1, 1, 1, 300});
      bias.each([&](const Axes& at) { bias.set(at, at[3] % 5 == 0 ? -kInfinity : 0.5); });
      want_all(p, point);
      check_problem(p);
    }
}

// ---- Narrow outputs ----

TEST_CASE("16-bit outputs overflow to infinity, past half a digit more than the largest number",
          "[edges]") {
  const IsaContexts contexts;
  const std::vector<std::pair<double, double>> numbers = {{65504, 65504},     {65518, 65504},
                                                          {65522, kInfinity}, {1e6, kInfinity},
                                                          {-65518, -65504},   {-65522, -kInfinity}};
  Sizes sizes = sizes_of(1, 1, {0, 0, 0, HEED_DTYPE_F16});
  sizes.value_features = static_cast<Index>(numbers.size());
  Problem p(sizes);
  p.fill(56);
  p.value.each(
      [&](const Axes& at) { p.value.set(at, numbers[static_cast<std::size_t>(at[3])].first); });
  check_problem(p);
  for (std::size_t n = 0; n < contexts.size(); ++n) {
    INFO(IsaContexts::name(n));
    const Numbers got = p.run_all(contexts[n]).out;
    for (std::size_t x = 0; x < numbers.size(); ++x) CHECK(got[x] == numbers[x].second);
  }
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
    Problem p(sizes);
    p.fill(57);
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
  for (const char* const isa : isa_names()) CHECK(all_are(p.run_all(isa).lse, kInfinity));
  p.key.fill([] { return -1e300; });
  for (const char* const isa : isa_names()) CHECK(all_are(p.run_all(isa).lse, -kInfinity));
}
