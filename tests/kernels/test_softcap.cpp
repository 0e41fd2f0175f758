// softcap: factor * tanh(x), where t = 2 log2(e) x comes in: as accurate next to 0, where exp2(t)
// is next to 1, as where it saturates.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

constexpr long double kHalfLn2 = 0.346573590279972654708616060729088284L;

/// As models have them, in log2 units, and a few that nobody has.
template <class Real>
std::vector<Real> factors() {
  return {1, static_cast<Real>(30 * kLog2E), static_cast<Real>(50 * kLog2E), Real(0.01F), 12345};
}

/// factor * tanh(x) of t as given: x = t / (2 log2(e)) is rounded to the wider type alone.
template <class Real>
Wide<Real> exact_of(Real t, Real factor) {
  return factor * std::tanh(t * static_cast<Wide<Real>>(kHalfLn2));
}

/// The worst error in ULP, and the t it is at. Where tanh(x) itself is subnormal, an ULP is the
/// spacing of subnormals, times the factor that follows.
template <class Real>
struct Worst {
  double ulps = 0;
  Real t = 0;

  void add(Real in, Real factor, Real got) {
    const Wide<Real> exact = exact_of(in, factor);
    const Wide<Real> ulp = std::max(ulp_of<Real>(exact), factor * ulp_of<Real>(0));
    const auto here = static_cast<double>(std::fabs(got - exact) / ulp);
    if (!(here <= ulps)) {
      ulps = here;
      t = in;
    }
  }
};

/// Runs softcap over `count` numbers that next() makes.
template <class Real, class Next>
void measure(const Table<Real>& kernels, std::size_t count, Real factor, Next&& next,
             Worst<Real>& worst) {
  const std::size_t pitch = 3 * kernels.panels.lanes;
  const std::size_t keys = (count + pitch - 1) / pitch;
  BasicBuffer<Real> scores(keys * pitch);
  scores.fill(next);
  const BasicBuffer<Real> before = scores;
  kernels.panels.softcap(3, scores.data(), keys, factor);
  for (std::size_t i = 0; i < scores.size(); ++i) worst.add(before[i], factor, scores[i]);
}

}  // namespace

TEMPLATE_TEST_CASE("softcap is within 4 ULP of factor * tanh(x)", "[softcap]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    Worst<TestType> worst;
    for (const TestType factor : factors<TestType>()) {
      Random random(1);
      for (const double range : {1.0, 8.0, 150.0})
        measure(
            kernels, count(std::is_same_v<TestType, float> ? 40000 : 10000), factor,
            [&] { return static_cast<TestType>((2 * random.unit() - 1) * range); }, worst);
    }
    INFO("worst at t = " << worst.t);
    CHECK(worst.ulps <= 4);
    report("softcap in ULP", kernels, worst.ulps);
  });
}

TEMPLATE_TEST_CASE("softcap is within 4 ULP at every magnitude, subnormals included", "[softcap]",
                   float, double) {
  using Limits = std::numeric_limits<TestType>;
  const int step = small() ? 19 : 1;
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    Worst<TestType> worst;
    for (const TestType factor : factors<TestType>()) {
      Random random(1);
      for (int e = kSmallestExponentOf<TestType> - Limits::digits;
           e<Limits::max_exponent; e += e> - 64 && e < 8 ? 1 : step)
        measure(
            kernels, 6, factor,
            [&] {
              const auto mantissa = static_cast<TestType>(1 + random.unit());
              return std::ldexp(random.integer(0, 1) == 0 ? mantissa : -mantissa, e);
            },
            worst);
    }
    INFO("worst at t = " << worst.t);
    CHECK(worst.ulps <= 4);
  });
}

TEMPLATE_TEST_CASE("softcap is exact at infinities and 0, and NaN stays NaN", "[softcap]", float,
                   double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    const TestType special[] = {kInf<TestType>, -kInf<TestType>, not_a_number<TestType>(),
                                -not_a_number<TestType>(), 0};
    for (const TestType factor : factors<TestType>()) {
      INFO("factor " << factor);
      const std::size_t pitch = 2 * kernels.panels.lanes;
      BasicBuffer<TestType> scores(10 * pitch);
      for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = special[i % 5];
      kernels.panels.softcap(2, scores.data(), 10, factor);
      const TestType want[] = {factor, -factor, special[2], special[3], 0};
      bool right = true;
      for (std::size_t i = 0; i < scores.size(); ++i)
        right = right && (scores[i] == want[i % 5] || std::isnan(want[i % 5])) &&
                std::isnan(scores[i]) == std::isnan(want[i % 5]);
      CHECK(right);
    }
  });
}

TEMPLATE_TEST_CASE("softcap changes the tile and nothing around it", "[softcap]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep_tiles([&](std::size_t keys, std::size_t vectors, Random& random) {
      const std::size_t pitch = vectors * kernels.panels.lanes;
      BasicBuffer<TestType> scores(keys * pitch);
      scores.fill([&] { return 3 * random.normal<TestType>(); });
      const BasicBuffer<TestType> before = scores;
      kernels.panels.softcap(vectors, scores.data(), keys, 20);
      Worst<TestType> worst;
      for (std::size_t i = 0; i < scores.size(); ++i) worst.add(before[i], 20, scores[i]);
      CHECK(worst.ulps <= 4);
      CHECK(scores.intact());
    });
  });
}
