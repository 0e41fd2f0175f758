// Scores as random problems do not have them: without end, far out, climbing, all alike, beyond a
// type; and values and outputs near the ends of theirs.
#include <limits>
#include <numeric>

#include "tests/dense/kinds.hpp"
#include "tests/support/gradients.hpp"

using namespace heed_test;

namespace {

/// Compares all outputs with the oracle on every instruction set.
void check_all(Problem& p, Unspecified unspecified = Unspecified::kForbidden) {
  want_all(p);
  check_problem(p, nullptr, unspecified);
}

/// A problem whose weights show themselves: one feature, scale 1, scores as given.
Problem scored(const std::vector<double>& scores, Index queries, const Types& types = {}) {
  Sizes sizes = {queries, static_cast<Index>(scores.size()), 1, 5};
  sizes.types = types;
  Problem p = filled(sizes, 41);
  p.desc.scale = 1;
  p.query.fill([] { return 1; });
  p.key.fill([&](const Axes& at) { return scores[static_cast<std::size_t>(at[2])]; });
  return p;
}

/// n scores, small and different.
std::vector<double> mild(std::size_t n) {
  std::vector<double> scores(n);
  for (std::size_t j = 0; j < n; ++j) scores[j] = 0.25 * static_cast<double>(j * 7 % 11) - 1;
  return scores;
}

/// The scores that each row of a problem has.
struct Scores {
  std::string name;
  std::vector<double> all;
};

/// n scores, small and different, but for some.
Scores mild_but(const std::string& name, const std::vector<std::size_t>& places, double score,
                std::size_t n = 150) {
  Scores scores = {name + " " + std::to_string(score), mild(n)};
  for (const std::size_t j : places) scores.all[j] = score;
  return scores;
}

/// What is exactly so, such as that +inf takes all the weight, and that of equal ones hard
/// attention takes the first, the oracle says with a bound of 0.
std::vector<Scores> all_scores() {
  std::vector<Scores> all;
  for (const double slope : {0.02, 0.08, 0.5, 5.0, 200.0, -0.08, -5.0, -200.0}) {
    std::vector<double> climbing(400);
    for (int j = 0; j < 400; ++j)
      climbing[static_cast<std::size_t>(j)] = slope * (j - j % 40 + (j % 3) / 4.0);
    all.push_back({"climbing by " + std::to_string(slope), climbing});
  }
  for (const double score : {0.0, 1.0, -1.0, 1e3, -1e3, 3e4, -3e4, -kInfinity})
    all.push_back({"equal " + std::to_string(score), std::vector<double>(300, score)});
  // In the first step of keys, some later, one or many; 3e38 overflows times 5.
  for (const std::vector<std::size_t>& places : std::vector<std::vector<std::size_t>>{
           {0}, {149}, {3, 4, 140, 141}, {127, 128}, {130, 131}, {70, 75, 80}})
    for (const double score : {kInfinity, 3e38, 1e6, 50.0})
      all.push_back(mild_but("some", places, score));
  for (const std::size_t first : {1U, 60U, 149U}) {
    std::vector<std::size_t> rest(150 - first);
    std::iota(rest.begin(), rest.end(), first);
    all.push_back(mild_but("the rest", rest, -kInfinity));
    all.push_back(mild_but("the rest", rest, -3e38));
  }
  Scores both = mild_but("both infinities", {3, 140}, kInfinity);
  both.all[70] = -kInfinity;
  all.push_back(both);
  all.push_back(mild_but("NaN", {140}, kNaN));
  return all;
}

struct Variant {
  const char* name;
  void (*set)(Problem&);
  Unspecified unspecified = Unspecified::kForbidden;
};
const Variant kVariants[] = {
    {"as they are", [](Problem&) {}},
    {"overflowing", [](Problem& p) { p.query.fill([] { return 5; }); }, Unspecified::kAllowed},
    {"capped", [](Problem& p) { p.desc.softcap = 4; }},
    {"hard", [](Problem& p) { p.desc.hard = 1; }},
    {"sink", [](Problem& p) { p.sinks.numbers = {0.75}; }},
    {"cold", [](Problem& p) { p.desc.temperature = 1e-3; }, Unspecified::kAllowed},
    {"hot", [](Problem& p) { p.desc.temperature = 1e30; }, Unspecified::kAllowed}};

}  // namespace

TEST_CASE("scores without end, far out, climbing and equal", "[special]") {
  std::size_t index = 0;
  for (const Scores& scores : all_scores())
    for (const Variant& variant : kVariants)
      for (const Index rows : {1, 5, 30}) {
        const Kind& kind = kinds()[index % kinds().size()];
        if (!keep_of_few(index++) || (small() && index % 7 != 0)) continue;
        Problem p = scored(scores.all, rows, index % 3 == 0 ? Types{} : kind.types);
        variant.set(p);
        INFO(scores.name << ", " << variant.name);
        // What 3e38 is off by in float64 nobody can weigh.
        const bool far = std::count(scores.all.begin(), scores.all.end(), 3e38) > 0;
        check_all(p, far ? Unspecified::kAllowed : variant.unspecified);
      }
}

TEST_CASE("one score far above all others takes all the weight", "[special]") {
  // Its own error is larger than all other scores: no bound says this.
  for (const double score : {1e20, 1e30, 2e38})
    for (const Index rows : {1, 30})
      for (const Index place : {0, 20, 31, 32, 100, 140, 299}) {
        Problem p = filled({rows, 300, 1, 8}, static_cast<std::uint64_t>(place));
        p.desc.scale = 1;
        p.query.fill([] { return 1; });
        p.key.fill([&](const Axes& at) { return at[2] == place ? score : 1; });
        on_every_isa(p, [&](const Outputs& got) {
          INFO("score " << score << " at key " << place);
          bool equal = true;
          for (std::size_t i = 0; i < got.out.size(); ++i)
            equal = equal && got.out[i] == p.value.get({0, 0, place, static_cast<Index>(i % 8)});
          CHECK(equal);
        });
      }
}

TEST_CASE("a soft cap on scores of every size", "[special]") {
  for (const Kind& kind : kinds())
    for (const double softcap : {1e-3, 0.5, 30.0, 1e4})
      for (const double reach : {1e-6, 1.0, 50.0, 6e4}) {
        std::vector<double> scores = mild(150);
        for (double& s : scores) s *= reach;
        Problem p = scored(scores, 3, kind.types);
        p.desc.softcap = softcap;
        INFO("scores up to " << reach);
        check_all(p);
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

TEST_CASE("scores of +-1e4, and temperatures from hardly any to hardly infinite", "[special]") {
  for (const double amplitude : {10.0, 30.0, 100.0, 140.0})
    for (const double temperature : {0.0, 1e-6, 1e6, 1e37})
      for (const Index rows : {1, 30, 100}) {
        Problem p({rows, 200, 4, 20});
        p.desc.scale = 1;
        p.desc.temperature = temperature;
        Random random(static_cast<std::uint64_t>(amplitude) + static_cast<std::uint64_t>(rows));
        const auto far = [&] {
          return (random.integer(0, 1) == 0 ? amplitude : -amplitude) * random.unit();
        };
        p.query.fill(far);
        p.key.fill(far);
        p.value.fill([&] { return random.normal(); });
        INFO("amplitude " << amplitude << ", temperature " << temperature);
        check_problem(p, nullptr,
                      temperature == 0 ? Unspecified::kForbidden : Unspecified::kAllowed);
      }
}

// Every number here is finite, so no key is masked and the weights are the same. Forward, by each
// strategy, and backward, where they follow from a log-sum-exp that cannot hold them.
TEST_CASE("scores that have no digits left are equal", "[special][backward]") {
  const double beyond = std::numeric_limits<double>::max();
  const auto check = [](std::uint32_t dtype, double far, bool function) {
    for (const Index rows : {1, 40}) {
      INFO("biases of " << far << ", " << name_of_dtype(dtype) << ", " << rows << " rows");
      Sizes sizes = {rows, 70, 8, 8};
      sizes.types = all_of(dtype);
      Problem p = filled(sizes, 4);
      p.add_bias({1, 1, rows, 70}, HEED_DTYPE_F64).fill([&] { return far; });
      if (function) p.function = score_function<Hide>();
      check_all(p);
      BackwardProblem back = all_gradients_of(p);
      // Sums of scores times gradients may overflow.
      if (std::fabs(far) > 1e30) back.gradients[kGradTemperature].reset();
      check_problem(back);
    }
  };
  for (const double far : {-1e9, 1e9, -1e19, -3.4e38, 3.4e38, -1e39, 1e39, -beyond, beyond})
    check(HEED_DTYPE_F32, far, false);
  for (const double far : {-1e19, 1e19, -beyond, beyond}) check(HEED_DTYPE_F64, far, false);
  for (const double far : {-beyond, beyond}) {
    check(HEED_DTYPE_F32, far, true);
    check(HEED_DTYPE_F64, far, true);
  }
}

// ---- NaN and infinities among rows that climb ----

TEST_CASE("NaN in a query makes that row NaN and no other", "[special]") {
  // Scores that stay, that outgrow references slowly, and far past what float32 can weigh.
  for (const double slope : {0.0, 0.1, 2.0, 50.0})
    for (const Index rows : {1, 10, 60})
      for (Index row = 0; row < rows; row += small() ? 31 : 7) {
        Problem p = filled({rows, 150, 4, 24}, 8);
        p.query.set_where([](const Axes& at) { return at[3] == 0; }, 1);
        for (Index j = 0; j < 150; ++j) p.key.set({0, 0, j, 0}, slope * static_cast<double>(j));
        p.query.set({0, 0, row, 3}, kNaN);
        INFO("slope " << slope << ", NaN in row " << row);
        check_problem(p);
      }
}

TEST_CASE("NaN in a query does not hide how another row's scores climb", "[special]") {
  for (const Index rows : {12, 24, 48})
    for (Index climber = 0; climber < rows; climber += 3) {
      if (!keep(static_cast<std::size_t>(climber / 3))) continue;
      Problem p = filled({rows, 150, 2, 8}, 15);
      p.query.each([&](const Axes& at) {
        if (at[3] == 0) p.query.set(at, at[2] == climber ? 1 : 0);
        if (at[3] == 1 && at[2] != climber) p.query.set(at, kNaN);
      });
      for (Index j = 0; j < 150; ++j) p.key.set({0, 0, j, 0}, 20 * static_cast<double>(j));
      INFO("row " << climber << " climbs, all others are NaN");
      check_problem(p);
    }
}

TEST_CASE("an infinite key, with rows that it makes +inf, -inf and none", "[special]") {
  // 1 to 30 rows: with each, other lanes of a panel hold no row.
  for (const double special : {kInfinity, -kInfinity})
    for (Index rows = 1; rows <= 30; ++rows)
      for (const Index place : {0, 40, 90, 149}) {
        if (!keep(static_cast<std::size_t>(rows + place))) continue;
        Problem p = filled({rows, 150, 1, 8}, 14);
        p.key.set({0, 0, place, 0}, special);
        INFO("key " << place << " is " << special);
        check_problem(p);
      }
}

// ---- Numbers near the ends of their types ----

TEST_CASE("values near the largest float32 and the smallest", "[special]") {
  // 25 values near FLT_MAX / 1e4, with weights of up to 2^8, stay below FLT_MAX.
  for (const double size : {3.4e34, 1e30, 1e-20, 1e-30, 1e-38, 1e-42})
    for (const Index rows : {1, 7, 80}) {
      Problem p = filled({rows, 25, 16, 24}, 5);
      Random random(6);
      p.value.fill([&] { return size * (2 * random.unit() - 1); });
      INFO("values of " << size);
      check_problem(p);
    }
}

TEST_CASE("huge queries of tiny keys, and the reverse", "[special]") {
  for (const float size : {1e15F, 1e30F, 1e37F, 1e-15F, 1e-30F, 1e-37F}) {
    Problem p({30, 100, 20, 8});
    Random random(9);
    p.query.fill([&] { return random.normal() * size; });
    p.key.fill([&] { return random.normal() / size; });
    p.value.fill([&] { return random.normal(); });
    INFO("queries of " << size);
    const Wanted want = wanted(p);
    const bool subnormal = size > 1e36F || size < 1e-36F;  // second parts of the tiny ones
    for (const std::string isa : isa_names())
      check_results(
          isa, run(p, make_context(isa.c_str())), want, isa,
          subnormal && multiplies_parts(isa) ? Unspecified::kAllowed : Unspecified::kForbidden);
  }
}

TEST_CASE("16-bit outputs overflow to infinity, past half a digit more than the largest number",
          "[special]") {
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

TEST_CASE("16-bit weights overflow at the points that show scores", "[special]") {
  for (const std::uint32_t of : {HEED_DTYPE_F32, HEED_DTYPE_F64, HEED_DTYPE_BF16})
    for (const heed_weights_point point : {HEED_WEIGHTS_SCORES, HEED_WEIGHTS_MASKED}) {
      std::vector<double> scores = mild(150);
      scores[3] = 1e5;
      scores[4] = -1e5;
      scores[5] = 65504;
      scores[140] = 3e38;
      Problem p = scored(scores, 3, all_of(of));
      for (const std::uint32_t dtype : {HEED_DTYPE_F16, HEED_DTYPE_BF16}) {
        p.want_weights(point, dtype);
        p.want_column_sums(dtype);
        // Float64 weights of scores near 3e38 nobody can bound; the scores can be.
        check_problem(p, nullptr, Unspecified::kAllowed);
      }
    }
}

TEST_CASE("column sums of more rows than float16 can count", "[special]") {
  if (small()) return;
  Sizes sizes = {70000, 1, 1, 1};
  for (const std::uint32_t dtype : {HEED_DTYPE_F16, HEED_DTYPE_BF16, HEED_DTYPE_F32}) {
    Problem p = filled(sizes, 57);
    p.want_column_sums(dtype);
    check_problem(p);
    CHECK(std::isinf(p.column_sums->get({0, 0, 0, 0})) == (dtype == HEED_DTYPE_F16));
  }
}

TEST_CASE("a float32 log-sum-exp of float64 attention", "[special]") {
  Problem p = scored(mild(150), 3, all_of(HEED_DTYPE_F64));
  p.want_lse(HEED_DTYPE_F32);
  check_problem(p);
  p.key.fill([] { return 1e300; });  // fits no float32
  for (const char* const isa : isa_names()) CHECK(all_are(p.run_all(isa).lse, 0x1.fffffcp127));
  p.key.fill([] { return -1e300; });
  for (const char* const isa : isa_names()) CHECK(all_are(p.run_all(isa).lse, -0x1.fffffep127));
}
