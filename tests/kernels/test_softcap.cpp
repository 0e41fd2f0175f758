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

/// Error / bound, which is 4 ULP of factor * tanh(x) of t as given: x = t / (2 log2(e)) is rounded
/// to the wider type alone. Where tanh(x) itself is subnormal, an ULP is the spacing of subnormals,
/// times the factor that follows. Infinities, 0 and NaN have no error.
template <class Real>
double check(Real t, Real factor, Real got) {
  const Wide<Real> exact = factor * std::tanh(t * static_cast<Wide<Real>>(kHalfLn2));
  if (std::isinf(t) || t == 0) return wrong_unless(got == exact);
  const Wide<Real> ulp = std::max(ulp_of<Real>(exact), factor * ulp_of<Real>(0));
  return error_ratio(got, exact, 4 * ulp);
}

/// The worst error / bound of softcap over tiles of numbers that next() makes.
template <class Real, class Next>
double check_softcap(const Table<Real>& kernels, const Case& c, Real factor, Next&& next) {
  INFO("factor " << factor);
  return change_scores<Real>(
      c, next, [&](Real* scores) { kernels.panels.softcap(c.vectors, scores, c.keys, factor); },
      [&](Real before, Real after, std::size_t, std::size_t) {
        return check(before, factor, after);
      });
}

}  // namespace

TEMPLATE_TEST_CASE("softcap is within 4 ULP of factor * tanh(x)", "[softcap]", float, double) {
  const std::vector<Case> cases = {{3, 0, count(1700), true, 1}};
  for_each_case<TestType>(cases, [](const auto& kernels, const Case& c, Random& random) {
    double worst = 0;
    for (const TestType factor : factors<TestType>())
      for (const double range : {1.0, 8.0, 150.0}) {
        const auto next = [&] { return static_cast<TestType>((2 * random.unit() - 1) * range); };
        worst = std::max(worst, check_softcap(kernels, c, factor, next));
      }
    return worst;
  });
}

TEMPLATE_TEST_CASE("softcap is within 4 ULP at every magnitude, subnormals included", "[softcap]",
                   float, double) {
  using Limits = std::numeric_limits<TestType>;
  const std::vector<Case> cases = {{3, 0, 1, true, 1}};
  for_each_case<TestType>(cases, [](const auto& kernels, const Case& c, Random& random) {
    const int step = small() ? 19 : 1;
    double worst = 0;
    for (const TestType factor : factors<TestType>())
      for (int e = kSmallestExponentOf<TestType> - Limits::digits;
           e<Limits::max_exponent; e += e> - 64 && e < 8 ? 1 : step) {
        const auto next = [&] {
          const auto mantissa = static_cast<TestType>(1 + random.unit());
          return std::ldexp(random.integer(0, 1) == 0 ? mantissa : -mantissa, e);
        };
        worst = std::max(worst, check_softcap(kernels, c, factor, next));
      }
    return worst;
  });
}

TEMPLATE_TEST_CASE("softcap is exact at infinities and 0, and NaN stays NaN", "[softcap]", float,
                   double) {
  const std::vector<Case> cases = {{2, 0, 10, true, 1}};
  for_each_case<TestType>(cases, [](const auto& kernels, const Case& c, Random&) {
    const TestType special[] = {kInf<TestType>, -kInf<TestType>, not_a_number<TestType>(),
                                -not_a_number<TestType>(), 0};
    double worst = 0;
    for (const TestType factor : factors<TestType>()) {
      const auto next = [&](std::size_t i) { return special[i % 5]; };
      worst = std::max(worst, check_softcap(kernels, c, factor, next));
    }
    return worst;
  });
}

TEMPLATE_TEST_CASE("softcap changes the tile and nothing around it", "[softcap]", float, double) {
  for_each_case<TestType>(tiles(), [](const auto& kernels, const Case& c, Random& random) {
    return check_softcap(kernels, c, TestType{20}, [&] { return 3 * random.normal<TestType>(); });
  });
}
