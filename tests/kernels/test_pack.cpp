// pack_query: a transposed, scaled copy, one rounding per element. pack_values: blocks of features,
// keys one after the other inside, zeros past the last feature. finish: accumulators / sum, back to
// rows, and normalise, which leaves the same in its panel.
#include "tests/kernels/support.hpp"

using namespace heed_test;

TEMPLATE_TEST_CASE("pack_query transposes and scales", "[pack_query]", float, double) {
  constexpr auto kScale = static_cast<TestType>(0.18033688011112042);
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    for (const std::size_t rows : row_counts(c)) {
      INFO(rows << " rows");
      Matrix<TestType> query(rows, c.features, c.unit, random);
      std::vector<const TestType*> pointers;
      for (std::size_t r = 0; r < rows; ++r) pointers.push_back(query.row(scattered(r, rows)));
      BasicBuffer<TestType> panel(c.features * c.pitch);
      kernels.panels.pack_query(c.vectors, pointers.data(), rows, query.column_stride(), c.features,
                                kScale, panel.data());
      CHECK(all(c.features, c.pitch, [&](std::size_t x, std::size_t r) {
        const TestType want = r < rows ? query.at(scattered(r, rows), x) * kScale : 0;
        return same_bits(panel[x * c.pitch + r], want);
      }));
      CHECK((panel.intact() && query.intact(rows * c.features)));
    }
  });
}

TEMPLATE_TEST_CASE("pack_values copies values to their blocks, also where keys lie side by side",
                   "[pack_values]", float, double) {
  constexpr std::size_t kBlock = heed::PanelGeometry::value_block;
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    for (const bool by_key : {true, false}) {
      const Matrix<TestType> values(by_key ? c.keys : c.features, by_key ? c.features : c.keys,
                                    c.unit, random);
      heed::MatrixView<TestType> view = values.view();
      if (!by_key) std::swap(view.row_stride, view.column_stride);
      const std::size_t width = round_up(c.features, kBlock);
      BasicBuffer<TestType> packed(width * c.keys);
      kernels.panels.pack_values(view, c.keys, c.features, packed.data());
      CHECK(all(width, c.keys, [&](std::size_t x, std::size_t j) {
        const std::size_t place = (x / kBlock * c.keys + j) * kBlock + x % kBlock;
        const TestType want = x >= c.features ? TestType{0}
                              : by_key        ? values.at(j, x)
                                              : values.at(x, j);
        return same_bits(packed[place], want);
      }));
      CHECK((packed.intact() && values.intact(c.keys * c.features)));
    }
  });
}

// Sums are mostly numbers from 1 on, some 0 (nothing attended) or NaN. Both make the same numbers,
// since a caller may take either, with a reciprocal and a product: two roundings.
TEMPLATE_TEST_CASE("finish divides and transposes back, normalise divides where accumulators lie",
                   "[finish][normalise]", float, double) {
  using Real = TestType;
  for_each_case<Real>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const auto& panels = kernels.panels;
    auto accumulators =
        normals<Real>(round_up(c.features, heed::PanelGeometry::row_padding) * c.pitch, random);
    const auto before = accumulators;
    const auto sum = filled<Real>(c.pitch, [&](std::size_t r) {
      return r % 7 == 3   ? Real{0}
             : r % 7 == 5 ? not_a_number<Real>()
                          : 1 + 100 * static_cast<Real>(random.unit());
    });
    BasicBuffer<Real> to(c.features * c.pitch);
    panels.normalise(c.vectors, accumulators.data(), sum.data(), c.features, to.data());
    for (const std::size_t rows : row_counts(c))
      for (const bool past_caches : {false, true}) {
        INFO(rows << " rows");
        Matrix<Real> out(rows, c.features, c.unit);
        std::vector<Real*> pointers;
        for (std::size_t r = 0; r < rows; ++r) pointers.push_back(out.row(scattered(r, rows)));
        panels.finish(c.vectors, accumulators.data(), sum.data(), c.features, pointers.data(), rows,
                      out.column_stride(), past_caches);
        CHECK(all(rows, c.features, [&](std::size_t r, std::size_t x) {
          return same_number(out.at(scattered(r, rows), x), to[x * c.pitch + r]);
        }));
        CHECK(out.intact(rows * c.features));
      }
    CHECK(
        (to.intact() && sum.intact() && accumulators.intact() && same_bits(accumulators, before)));
    panels.normalise(c.vectors, accumulators.data(), sum.data(), c.features, accumulators.data());
    CHECK(same_bits(accumulators, to, to.size()));
    return worst_of(c.pitch, c.features, [&](std::size_t r, std::size_t x) {
      const std::size_t at = x * c.pitch + r;
      const Wide<Real> exact = sum[r] == 0 ? 0 : static_cast<Wide<Real>>(before[at]) / sum[r];
      return error_ratio<Real>(to[at], exact, gamma_of<Real>(2) * std::fabs(exact));
    });
  });
}
