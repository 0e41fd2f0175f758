// exp2: within 1 ULP wherever softmax needs it, exact at 0, and honest about infinities and NaN.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// Where results are normal numbers, and 1 ULP is promised.
template <class Real>
constexpr Real kLowest = kSmallestExponentOf<Real>;
template <class Real>
constexpr Real kHighest = std::numeric_limits<Real>::max_exponent - 0.5;

/// Error of y as 2^x in units in the last place of the exact result, for results that are
/// normal numbers.
double ulps(float x, float y) {
  const double exact = std::exp2(static_cast<double>(x));
  // The power of two at or below it; faster than ulp_of, for there are many.
  const double power = double_of(bits_of(exact) & 0x7ff0000000000000U);
  return std::fabs(static_cast<double>(y) - exact) / power * 0x1p23;
}

double ulps(double x, double y) {
  const long double exact = std::exp2(static_cast<long double>(x));
  return static_cast<double>(std::fabs(y - exact) / ulp_of<double>(exact));
}

template <class Real>
struct Worst {
  void check(const Table<Real>& kernels) const {
    INFO("worst at x = " << x);
    CHECK(ulps <= 1);
    report("exp2 in ULP", kernels.isa, ulps);
  }

  double ulps = 0;
  Real x = 0;
};

/// Measures count numbers, each the result of next().
template <class Real, class Next>
void measure(const Table<Real>& kernels, std::size_t count, Next&& next, Worst<Real>& worst) {
  constexpr std::size_t kBlock = 4096;
  BasicBuffer<Real> x(kBlock);
  BasicBuffer<Real> y(kBlock);
  while (count > 0) {
    const std::size_t here = std::min(count, kBlock);
    for (std::size_t i = 0; i < here; ++i) x[i] = next();
    kernels.numbers.exp2(x.data(), y.data(), here);
    for (std::size_t i = 0; i < here; ++i) {
      const double error = ulps(x[i], y[i]);
      if (!(error <= worst.ulps)) worst = {error, x[i]};
    }
    count -= here;
  }
}

/// Every `stride`-th number from `first` to `last`, which have the same sign, outwards from 0.
template <class Real>
void measure_range(const Table<Real>& kernels, Real first, Real last, Bits<Real> stride,
                   Worst<Real>& worst) {
  Bits<Real> bits = bits_of(first);
  const auto next = [&] {
    const Real x = real_of<Real>(bits);
    bits += stride;
    return x;
  };
  measure(kernels, static_cast<std::size_t>((bits_of(last) - bits) / stride + 1), next, worst);
}

template <class Real>
Real exp2_of(const Table<Real>& kernels, Real x) {
  Real y = canary_of<Real>();
  kernels.numbers.exp2(&x, &y, 1);
  return y;
}

}  // namespace

TEST_CASE("exp2 of float32 is within 1 ULP in [-126, 127.5]", "[exp2]") {
  for_each_table<float>([](const Table<float>& kernels) {
    Worst<float> worst;
    measure_range(kernels, -0.0F, -126.0F, small() ? 61 * 41 : 61, worst);
    measure_range(kernels, 0.0F, 8.0F, small() ? 61 * 41 : 61, worst);
    measure_range(kernels, 8.0F, 127.5F, small() ? 1009 : 101, worst);
    worst.check(kernels);
  });
}

// Fewer than for float32 are a smaller part of all, so they lie where errors differ: densely
// between two whole numbers, at and around each of those and halfway, where rounding x to the
// nearest of them goes one way or the other, and at every magnitude.
TEST_CASE("exp2 of float64 is within 1 ULP in [-1022, 1023.5]", "[exp2]") {
  for_each_table<double>([](const Table<double>& kernels) {
    Random random(1);
    Worst<double> worst;
    const auto uniform = [&](double low, double high) {
      return [&random, low, high] { return low + (high - low) * random.unit(); };
    };
    measure(kernels, count(200000), uniform(-0.5, 0.5), worst);
    measure(kernels, count(100000), uniform(-30, 8), worst);
    measure(kernels, count(50000), uniform(kLowest<double>, kHighest<double>), worst);
    const std::uint64_t stride = (std::uint64_t{small() ? 2003U : 101U} << 40) + 12345;
    measure_range(kernels, -0.0, kLowest<double>, stride, worst);
    measure_range(kernels, 0.0, kHighest<double>, stride, worst);
    for (double n = kLowest<double>; n < kHighest<double>; n += small() ? 9.5 : 0.5) {
      const double around[] = {std::nextafter(n, n + 1), std::nextafter(n, n - 1), n + 0x1p-30, n,
                               n + random.unit() / 2};
      const std::size_t outside = n == kLowest<double> ? 2 : 0;  // one of them is below
      std::size_t i = outside;
      measure(
          kernels, 5 - outside, [&] { return around[i++]; }, worst);
    }
    worst.check(kernels);
  });
}

TEMPLATE_TEST_CASE("exp2 is exact for whole numbers", "[exp2]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (int n = kSmallestExponentOf<TestType>; n < std::numeric_limits<TestType>::max_exponent;
         ++n) {
      INFO("n = " << n);
      CHECK(exp2_of(kernels, static_cast<TestType>(n)) == std::ldexp(TestType{1}, n));
    }
    CHECK(exp2_of(kernels, TestType{-0.0}) == 1);
  });
}

TEMPLATE_TEST_CASE("exp2 below the smallest exponent by more than a half is +0", "[exp2]", float,
                   double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    constexpr TestType low = kLowest<TestType>;
    constexpr TestType inf = kInf<TestType>;
    for (const TestType x :
         {std::nextafter(low - TestType{0.5}, -inf), low - TestType{0.75}, low - 1,
          low - TestType{1.5}, low - 2, low - 23, low - 24, low - 52, low - 53, 2 * low - 3,
          2 * low - 4, TestType{-1e4}, TestType{-1e10}, TestType{-3e38F}, -kMax<TestType>, -inf}) {
      INFO("x = " << x);
      CHECK(same_bits(exp2_of(kernels, x), TestType{0}));
    }
  });
}

TEMPLATE_TEST_CASE("exp2 just below is a subnormal within half its spacing and 1 ULP", "[exp2]",
                   float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    constexpr TestType low = kLowest<TestType>;
    for (TestType x = low; x > low - TestType{0.5};
         x = std::nextafter(x, -kInf<TestType>) -
             (small() ? TestType{0x1p-8} : TestType{0x1p-12})) {
      const Wide<TestType> exact = std::exp2(static_cast<Wide<TestType>>(x));
      const Wide<TestType> error = std::fabs(exp2_of(kernels, x) - exact);
      INFO("x = " << x);
      CHECK(error <= exact * std::numeric_limits<TestType>::epsilon() + kUnderflowOf<TestType>);
    }
  });
}

TEMPLATE_TEST_CASE("exp2 of NaN is NaN whatever its payload", "[exp2]", float, double) {
  constexpr int kMantissaBits = std::numeric_limits<TestType>::digits - 1;
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (const TestType infinity : {kInf<TestType>, -kInf<TestType>})
      for (const Bits<TestType> payload :
           {0x400000U, 0x400001U, 0x7fffffU, 0x000001U, 0x200000U, 0x4000ffU, 0x555555U, 0x400181U})
        // As the high bits of the mantissa, and as the low ones.
        for (const int shift : {kMantissaBits - 23, 0}) {
          INFO("payload " << payload << " << " << shift << ", sign " << std::signbit(infinity));
          const Bits<TestType> bits = bits_of(infinity) | payload << shift;
          CHECK(std::isnan(exp2_of(kernels, real_of<TestType>(bits))));
        }
  });
}

TEMPLATE_TEST_CASE("exp2 writes count numbers, in place too", "[exp2]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (std::size_t n = 0; n <= 67; ++n) {
      INFO("count " << n);
      BasicBuffer<TestType> x(n, 1);
      BasicBuffer<TestType> y(n, 3);
      Random random(n);
      x.fill([&] { return random.normal<TestType>(); });
      kernels.numbers.exp2(x.data(), y.data(), n);
      CHECK(y.intact());
      CHECK(all(n, [&](std::size_t i) { return same_bits(y[i], exp2_of(kernels, x[i])); }));
      kernels.numbers.exp2(x.data(), x.data(), n);
      CHECK((same_bits(x, y) && x.intact()));
    }
  });
}
