// exp2: within 1 ULP wherever softmax needs it, exact at 0, and honest about infinities and NaN.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// Error of y as 2^x in units in the last place of the exact result, for results that are
/// normal float32 numbers.
double ulps(float x, float y) {
  const double exact = std::exp2(static_cast<double>(x));
  std::uint64_t bits;
  std::memcpy(&bits, &exact, sizeof bits);
  bits &= 0x7ff0000000000000U;  // the power of two at or below it
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return std::fabs(static_cast<double>(y) - exact) / power * 0x1p23;
}

struct Worst {
  double ulps = 0;
  float x = 0;
};

/// Every `stride`-th float from the one with bits `first` to the one with bits `last`.
void measure(const heed::KernelTable& kernels, std::uint32_t first, std::uint32_t last,
             std::uint32_t stride, Worst& worst) {
  constexpr std::size_t kBlock = 4096;
  Buffer x(kBlock);
  Buffer y(kBlock);
  for (std::uint64_t bits = first; bits <= last;) {
    std::size_t count = 0;
    for (; count < kBlock && bits <= last; ++count, bits += stride)
      x[count] = float_of(static_cast<std::uint32_t>(bits));
    kernels.exp2(x.data(), y.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      const double error = ulps(x[i], y[i]);
      if (!(error <= worst.ulps)) worst = {error, x[i]};
    }
  }
}

float exp2_of(const heed::KernelTable& kernels, float x) {
  float y = canary();
  kernels.exp2(&x, &y, 1);
  return y;
}

}  // namespace

TEST_CASE("exp2 is within 1 ULP in [-126, 8]", "[exp2]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    const std::uint32_t stride = small() ? 61 * 41 : 61;
    Worst worst;
    measure(kernels, bits_of(-0.0F), bits_of(-126.0F), stride, worst);
    measure(kernels, bits_of(0.0F), bits_of(8.0F), stride, worst);
    INFO("worst at x = " << worst.x);
    CHECK(worst.ulps <= 1);
    report("exp2, in ULP", kernels.isa, worst.ulps);
  });
}

TEST_CASE("exp2 is within 1 ULP up to 127.5", "[exp2]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    Worst worst;
    measure(kernels, bits_of(8.0F), bits_of(127.5F), small() ? 1009 : 101, worst);
    INFO("worst at x = " << worst.x);
    CHECK(worst.ulps <= 1);
  });
}

TEST_CASE("exp2 is exact for whole numbers", "[exp2]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    for (int n = -126; n <= 127; ++n) {
      INFO("n = " << n);
      CHECK(exp2_of(kernels, static_cast<float>(n)) == std::ldexp(1.0F, n));
    }
    CHECK(exp2_of(kernels, -0.0F) == 1.0F);
  });
}

TEST_CASE("exp2 below -126.5 is +0", "[exp2]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    for (const float x :
         {std::nextafter(-126.5F, -kInf), -126.75F, -127.0F, -127.5F, -128.0F, -149.0F, -150.0F,
          -255.0F, -256.0F, -1e4F, -1e10F, -3e38F, -3.402823466e+38F, -kInf}) {
      INFO("x = " << x);
      CHECK(same_bits(exp2_of(kernels, x), 0.0F));
    }
  });
}

TEST_CASE("exp2 between -126.5 and -126 is a subnormal within half its spacing and 1 ULP",
          "[exp2]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    for (float x = -126.0F; x > -126.5F; x = std::nextafter(x, -kInf) - 0x1p-12F) {
      const double exact = std::exp2(static_cast<double>(x));
      const double error = std::fabs(static_cast<double>(exp2_of(kernels, x)) - exact);
      INFO("x = " << x);
      CHECK(error <= exact * 0x1p-23 + kUnderflow);
    }
  });
}

TEST_CASE("exp2 of NaN is NaN whatever its payload", "[exp2]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      for (const std::uint32_t payload : {0x400000U, 0x400001U, 0x7fffffU, 0x000001U, 0x200000U,
                                          0x4000ffU, 0x555555U, 0x400181U}) {
        INFO("payload " << payload << ", sign " << (sign != 0));
        CHECK(std::isnan(exp2_of(kernels, float_of(sign | 0x7f800000U | payload))));
      }
    }
  });
}

TEST_CASE("exp2 writes count numbers, in place too", "[exp2]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    for (std::size_t n = 0; n <= 67; ++n) {
      INFO("count " << n);
      Buffer x(n, 1);
      Buffer y(n, 3);
      Random random(n);
      x.fill([&] { return random.normal(); });
      kernels.exp2(x.data(), y.data(), n);
      CHECK(y.intact());
      bool equal = true;
      for (std::size_t i = 0; i < n; ++i) equal = equal && same_bits(y[i], exp2_of(kernels, x[i]));
      CHECK(equal);
      kernels.exp2(x.data(), x.data(), n);
      for (std::size_t i = 0; i < n; ++i) equal = equal && same_bits(x[i], y[i]);
      CHECK((equal && x.intact()));
    }
  });
}
