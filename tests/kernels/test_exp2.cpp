// exp2: within 1 ULP wherever softmax needs it, exact of whole numbers, and honest about infinities
// and NaN.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// Where results are normal numbers, and 1 ULP is promised.
template <class Real>
constexpr Real kLowest = kSmallestExponentOf<Real>;
template <class Real>
constexpr Real kHighest = std::numeric_limits<Real>::max_exponent - 0.5;

/// The unit in the last place of a normal result. Faster than ulp_of for float32, for there are
/// many: the power of two at or below it.
double ulp_at(double exact) { return double_of(bits_of(exact) & 0x7ff0000000000000U) * 0x1p-23; }
long double ulp_at(long double exact) { return ulp_of<double>(exact); }

/// Error / bound of y as 2^x: an ULP of what is normal; just below that half the spacing of
/// subnormal numbers more, or 0 if it is `flushed`; none of whole numbers, and of what is 0 or NaN.
template <class Real>
double ratio_of(Real x, Real y, bool flushed) {
  if (std::isnan(x)) return wrong_unless(std::isnan(y));
  if (x <= kLowest<Real> - Real{0.5}) return wrong_unless(same_bits(y, Real{0}));
  if (x < kLowest<Real> && flushed) return wrong_unless(same_bits(y, Real{0}));
  const Wide<Real> exact = std::exp2(static_cast<Wide<Real>>(x));
  const Wide<Real> error = std::fabs(y - exact);
  if (x < kLowest<Real>)
    return static_cast<double>(error /
                               (exact * std::numeric_limits<Real>::epsilon() + kUnderflowOf<Real>));
  if (error != 0 && x == std::nearbyint(x)) return HUGE_VAL;
  return static_cast<double>(error / ulp_at(exact));
}

template <class Real>
struct Sweep {
  /// Of count numbers, each the result of next().
  template <class Next>
  void measure(std::size_t count, Next&& next) {
    constexpr std::size_t kMost = 4096;
    BasicBuffer<Real> x(kMost);
    BasicBuffer<Real> y(kMost);
    while (count > 0) {
      const std::size_t here = std::min(count, kMost);
      for (std::size_t i = 0; i < here; ++i) x[i] = next();
      kernels.numbers.exp2(x.data(), y.data(), here);
      for (std::size_t i = 0; i < here; ++i) {
        const double ratio = ratio_of(x[i], y[i], flushed);
        if (!(ratio <= worst)) worst = ratio, worst_x = x[i];
      }
      count -= here;
    }
  }
  /// Every `stride`-th number from `first` to `last`, which have the same sign, outwards from 0.
  void measure_range(Real first, Real last, Bits<Real> stride) {
    Bits<Real> bits = bits_of(first);
    measure(static_cast<std::size_t>((bits_of(last) - bits) / stride + 1), [&] {
      const Real x = real_of<Real>(bits);
      bits += stride;
      return x;
    });
  }
  void measure_uniform(std::size_t count, Real low, Real high) {
    measure(count, [&] { return low + (high - low) * static_cast<Real>(random.unit()); });
  }
  void measure_all(const std::vector<Real>& numbers) {
    std::size_t i = 0;
    measure(numbers.size(), [&] { return numbers[i++]; });
  }

  const Table<Real>& kernels;
  /// Tables of powers, of 16 lanes, leave no subnormal numbers.
  const bool flushed = kernels.panels.lanes == 16;
  Random random{1};
  double worst = 0;
  Real worst_x = 0;
};

}  // namespace

// Numbers lie where errors differ: at every magnitude, at and around each whole number and halfway,
// where rounding x to the nearest of them goes one way or the other, and, of float64, of which
// fewer are a smaller part of all, densely between two whole numbers.
TEMPLATE_TEST_CASE("exp2 is within 1 ULP, exact of whole numbers, 0 far below, and NaN of NaN",
                   "[exp2]", float, double) {
  using Real = TestType;
  constexpr Real low = kLowest<Real>, high = kHighest<Real>, inf = kInf<Real>;
  for_each_table<Real>([&](const Table<Real>& kernels) {
    Sweep<Real> sweep = {kernels};
    if constexpr (std::is_same_v<Real, float>) {
      sweep.measure_range(-0.0F, low, small() ? 61 * 41 : 61);
      sweep.measure_range(0, 8, small() ? 61 * 41 : 61);
      sweep.measure_range(8, high, small() ? 1009 : 101);
    } else {
      const std::uint64_t stride = (std::uint64_t{small() ? 2003U : 101U} << 40) + 12345;
      sweep.measure_range(-0.0, low, stride);
      sweep.measure_range(0, high, stride);
      sweep.measure_uniform(count(200000), -0.5, 0.5);
      sweep.measure_uniform(count(100000), -30, 8);
    }
    sweep.measure_uniform(count(50000), low, high);
    sweep.measure_uniform(count(4000), low - Real{0.5}, low);
    for (Real n = low; n < high; n += Real{0.5})
      sweep.measure_all({n, std::nextafter(n, inf), std::nextafter(n, -inf), n + Real(0x1p-30),
                         n + static_cast<Real>(sweep.random.unit()) / 2});
    const Real below = low - Real{0.5};
    sweep.measure_all({std::nextafter(below, -inf), low - Real{0.75}, low - 1, low - Real{1.5},
                       low - 2, low - 23, low - 24, low - 52, low - 53, 2 * low - 3, 2 * low - 4,
                       Real{-1e4}, Real{-1e10}, Real{-3e38F}, -kMax<Real>, -inf});
    const Bits<Real> quiet = bits_of(Real{1.5}) & ~bits_of(Real{1});
    for (const Bits<Real> mantissa : {Bits<Real>{1}, Bits<Real>{quiet >> 1}, 2 * quiet - 1, quiet})
      sweep.measure(64, [&] {
        const Bits<Real> sign = bits_of(sweep.random.integer(0, 1) == 0 ? inf : -inf);
        const auto some = static_cast<Bits<Real>>(sweep.random.bits()) & mantissa;
        return real_of<Real>(sign | (some == 0 ? mantissa : some));
      });
    INFO("worst at x = " << sweep.worst_x);
    CHECK(sweep.worst <= 1);
    report("exp2 in ULP", kernels.isa, sweep.worst);
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
      CHECK((y.intact() && all(n, [&](std::size_t i) {
               TestType alone = 0;
               kernels.numbers.exp2(&x[i], &alone, 1);
               return same_bits(y[i], alone);
             })));
      kernels.numbers.exp2(x.data(), x.data(), n);
      CHECK((same_bits(x, y) && x.intact()));
    }
  });
}
