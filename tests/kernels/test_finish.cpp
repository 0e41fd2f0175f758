// finish: accumulators / sum, back to rows; 0 where nothing was attended. And normalise, which
// leaves the same in its panel.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// Sums as rows have them: mostly numbers from 1 on, some 0 (nothing attended), NaN or tiny.
template <class Real>
Real sum_of(std::size_t row, Random& random) {
  if (row % 7 == 3) return 0;
  if (row % 7 == 5) return not_a_number<Real>();
  return 1 + 100 * static_cast<Real>(random.unit());
}

template <class Real>
void check(const Table<Real>& kernels, const Case& c, std::size_t rows, Random& random,
           double& worst) {
  INFO(rows << " rows");
  const std::size_t pitch = c.vectors * kernels.panels.lanes;
  BasicBuffer<Real> accumulators(round_up(c.features, heed::PanelGeometry::row_padding) * pitch);
  accumulators.fill([&] { return random.normal<Real>(); });
  const BasicBuffer<Real> before = accumulators;
  BasicBuffer<Real> sum(pitch);
  for (std::size_t r = 0; r < pitch; ++r) sum[r] = sum_of<Real>(r, random);
  Matrix<Real> out(rows, c.features, c.unit);
  std::vector<Real*> pointers;
  for (std::size_t r = 0; r < rows; ++r) pointers.push_back(out.row(scattered(r, rows)));
  kernels.panels.finish(c.vectors, accumulators.data(), sum.data(), c.features, pointers.data(),
                        rows, out.column_stride());
  double ratio = 0;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t x = 0; x < c.features; ++x) {
      const Real got = pointers[r][static_cast<std::ptrdiff_t>(x) * out.column_stride()];
      const Wide<Real> exact =
          sum[r] == 0 ? 0 : static_cast<Wide<Real>>(before[x * pitch + r]) / sum[r];
      // A reciprocal and a product: two roundings.
      ratio = std::max(ratio, error_ratio(got, exact, gamma_of<Real>(2) * std::fabs(exact)));
    }
  CHECK(ratio <= 1);
  CHECK(out.intact(rows * c.features));
  CHECK((accumulators.intact() && sum.intact()));
  CHECK(same_bits(accumulators, before, 0, before.size()));
  worst = std::max(worst, ratio);
}

/// Equal to what finish writes, since a caller may take either.
template <class Real>
void check_normalise(const Table<Real>& kernels, const Case& c, Random& random, double& worst) {
  const std::size_t pitch = c.vectors * kernels.panels.lanes;
  BasicBuffer<Real> accumulators(round_up(c.features, heed::PanelGeometry::row_padding) * pitch);
  accumulators.fill([&] { return random.normal<Real>(); });
  const BasicBuffer<Real> before = accumulators;
  BasicBuffer<Real> sum(pitch);
  for (std::size_t r = 0; r < pitch; ++r) sum[r] = sum_of<Real>(r, random);
  Matrix<Real> rows(pitch, c.features, c.unit);
  std::vector<Real*> pointers;
  for (std::size_t r = 0; r < pitch; ++r) pointers.push_back(rows.row(r));
  kernels.panels.finish(c.vectors, accumulators.data(), sum.data(), c.features, pointers.data(),
                        pitch, rows.column_stride());

  BasicBuffer<Real> to(c.features * pitch);
  kernels.panels.normalise(c.vectors, accumulators.data(), sum.data(), c.features, to.data());
  CHECK((accumulators.intact() && sum.intact() && to.intact()));
  CHECK(same_bits(accumulators, before, 0, before.size()));
  double ratio = 0;
  bool as_finish = true;
  for (std::size_t x = 0; x < c.features; ++x)
    for (std::size_t r = 0; r < pitch; ++r) {
      const Real got = to[x * pitch + r];
      const Wide<Real> exact =
          sum[r] == 0 ? 0 : static_cast<Wide<Real>>(before[x * pitch + r]) / sum[r];
      // A reciprocal and a product: two roundings.
      ratio = std::max(ratio, error_ratio(got, exact, gamma_of<Real>(2) * std::fabs(exact)));
      as_finish = as_finish && same_number(got, rows.at(r, x));
    }
  CHECK(ratio <= 1);
  CHECK(as_finish);
  worst = std::max(worst, ratio);

  kernels.panels.normalise(c.vectors, accumulators.data(), sum.data(), c.features,
                           accumulators.data());
  CHECK(same_bits(accumulators, to, 0, to.size()));
}

}  // namespace

TEMPLATE_TEST_CASE("finish divides and transposes back", "[finish]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    double worst = 0;
    sweep([&](const Case& c, Random& random) {
      const std::size_t pitch = c.vectors * kernels.panels.lanes;
      for (const std::size_t rows : {pitch, pitch - 1, pitch - kernels.panels.lanes + 1,
                                     c.keys < pitch ? c.keys : std::size_t{1}})
        check(kernels, c, rows, random, worst);
    });
    report("finish", kernels, worst);
  });
}

TEMPLATE_TEST_CASE("normalise divides where accumulators lie", "[normalise]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    double worst = 0;
    sweep([&](const Case& c, Random& random) { check_normalise(kernels, c, random, worst); });
    report("normalise", kernels, worst);
  });
}
