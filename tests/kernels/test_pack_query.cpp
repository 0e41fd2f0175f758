// pack_query: a transposed, scaled copy, one rounding per element.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

constexpr double kScale = 0.18033688011112042;

template <class Real>
void check(const Table<Real>& kernels, const Case& c, std::size_t rows, Random& random) {
  INFO(rows << " rows");
  const std::size_t pitch = c.vectors * kernels.panels.lanes;
  Matrix<Real> query(rows, c.features, c.unit);
  query.fill(rows, random);
  std::vector<const Real*> pointers;
  for (std::size_t r = 0; r < rows; ++r) pointers.push_back(query.row(scattered(r, rows)));
  const auto scale = static_cast<Real>(kScale);
  BasicBuffer<Real> panel(c.features * pitch);
  kernels.panels.pack_query(c.vectors, pointers.data(), rows, query.column_stride(), c.features,
                            scale, panel.data());
  bool equal = true;
  for (std::size_t x = 0; x < c.features; ++x) {
    const auto at = static_cast<std::ptrdiff_t>(x) * query.column_stride();
    for (std::size_t r = 0; r < pitch; ++r) {
      const Real want = r < rows ? pointers[r][at] * scale : 0;
      equal = equal && same_bits(panel[x * pitch + r], want);
    }
  }
  CHECK((equal && panel.intact() && query.intact(rows * c.features)));
}

}  // namespace

TEMPLATE_TEST_CASE("pack_query transposes and scales", "[pack_query]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep([&](const Case& c, Random& random) {
      const std::size_t pitch = c.vectors * kernels.panels.lanes;
      // `keys` has no meaning here; it serves as one more number of rows.
      for (const std::size_t rows : {pitch, pitch - 1, pitch - kernels.panels.lanes + 1,
                                     c.keys < pitch ? c.keys : std::size_t{1}})
        check(kernels, c, rows, random);
    });
  });
}
