// Kernels over numbers that lie one after the other, but exp2 and conversions.
#include <cmath>
#include <cstddef>
#include <map>

#include "tests/kernels/support.hpp"

using namespace heed_test;

TEMPLATE_TEST_CASE("one infinity or NaN is found wherever it is", "[all_finite]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    for (const std::size_t vectors : {0U, 1U, 2U, 3U, 4U, 5U, 8U, 11U}) {
      const std::size_t count = vectors * kernels.panels.lanes;
      BasicBuffer<TestType> numbers(count);
      numbers.fill([i = 0]() mutable { return ++i % 2 == 0 ? kMax<TestType> : -kMax<TestType>; });
      CHECK(kernels.numbers.all_finite(numbers.data(), count));
      for (std::size_t at = 0; at < count; ++at) {
        const TestType before = numbers[at];
        for (const TestType special : {kInf<TestType>, -kInf<TestType>, not_a_number<TestType>()}) {
          INFO(count << " numbers, " << special << " at " << at);
          numbers[at] = special;
          CHECK(!kernels.numbers.all_finite(numbers.data(), count));
        }
        numbers[at] = before;
      }
      CHECK(numbers.intact());
    }
  });
}

TEMPLATE_TEST_CASE("add_onto and scale_scores treat each number alike", "[numbers]", float,
                   double) {
  using Real = TestType;
  for_each_table<Real>([](const Table<Real>& kernels) {
    for (std::size_t count = 0; count < 70; ++count) {
      Random random(count);
      const auto any = [&] {
        const std::int64_t kind = random.integer(0, 9);
        return kind == 0   ? random.pick<Real>({kInf<Real>, -kInf<Real>, not_a_number<Real>(), 0})
               : kind == 1 ? random.pick<Real>({kMax<Real>, -kMax<Real>, kMax<Real> / 3})
                           : random.normal<Real>();
      };
      const auto from = filled<Real>(count, any);
      const auto before = filled<Real>(count, any);
      auto sums = before;
      kernels.numbers.add_onto(from.data(), count, sums.data());
      const auto factor = random.pick<Real>({static_cast<Real>(kLog2E), 1, 0, Real(0.3F), 1000});
      auto scores = before;
      kernels.numbers.scale_scores(factor, count, scores.data());
      INFO(count << " numbers, factor " << factor);
      CHECK((sums.intact() && scores.intact()));
      CHECK(all(count, [&](std::size_t i) {
        const Real product = before[i] * factor;
        const Real scaled = !std::isfinite(before[i]) ? before[i]
                            : std::isfinite(product)  ? product
                            : product < 0             ? heed::kNoRowMax<Real>
                                                      : heed::kHighestScore<Real>;
        return same_number(sums[i], before[i] + from[i]) && same_number(scores[i], scaled);
      }));
    }
  });
}

// A product is rounded once, then with the sums of its chain, and with four of chains; floats that
// cancel leave what is left of them.
TEMPLATE_TEST_CASE("inner products are sums of float64 on every instruction set", "[inner_product]",
                   float, double) {
  std::map<std::size_t, double> seen;
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    for (const std::size_t count : {0U, 1U, 7U, 15U, 16U, 17U, 23U, 40U, 64U, 77U, 197U}) {
      Random random(count);
      auto a = normals<TestType>(count, random);
      auto b = normals<TestType>(count, random);
      if (count == 40) {
        a[3] = TestType(0x1p40F);
        a[35] = -a[3];
        b[3] = b[35];
      }
      long double want = 0;
      long double sizes = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const long double product = static_cast<long double>(a[i]) * b[i];
        want += product;
        sizes += std::fabs(product);
      }
      const double got = kernels.numbers.inner_product(a.data(), b.data(), count);
      INFO(kernels.isa << ", " << count << " numbers: " << got);
      CHECK(std::fabs(static_cast<double>(got - want)) <=
            0x1p-53 * static_cast<double>(count / 16 + 7) * static_cast<double>(sizes));
      CHECK(seen.emplace(count, got).first->second == got);
      CHECK((a.intact() && b.intact()));
      if (count == 0) continue;
      a[count / 2] = kInf<TestType>;
      b[count / 2] = 1;
      CHECK(kernels.numbers.inner_product(a.data(), b.data(), count) == kInf<TestType>);
      b[count / 2] = 0;
      CHECK(std::isnan(kernels.numbers.inner_product(a.data(), b.data(), count)));
    }
  });
}
