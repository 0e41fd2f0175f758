// pack_values: blocks of features, keys one after the other inside, zeros past the last feature.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// Packs what `view` shows of a matrix; at(j, x) is feature x of key j.
template <class Real, class At>
void check(const Table<Real>& kernels, const Case& c, const heed::MatrixView<Real>& view, At&& at) {
  const std::size_t width = round_up(c.features, heed::PanelGeometry::value_block);
  BasicBuffer<Real> packed(width * c.keys);
  kernels.panels.pack_values(view, c.keys, c.features, packed.data());
  bool equal = true;
  for (std::size_t x = 0; x < width; ++x)
    for (std::size_t j = 0; j < c.keys; ++j) {
      const std::size_t place =
          (x / heed::PanelGeometry::value_block * c.keys + j) * heed::PanelGeometry::value_block +
          x % heed::PanelGeometry::value_block;
      const Real want = x < c.features ? at(j, x) : Real{0};
      equal = equal && same_bits(packed[place], want);
    }
  CHECK(equal);
  CHECK(packed.intact());
}

}  // namespace

TEMPLATE_TEST_CASE("pack_values copies values to their blocks", "[pack_values]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep([&](const Case& c, Random& random) {
      Matrix<TestType> value(c.keys, c.features, c.unit);
      value.fill(c.keys, random);
      const Matrix<TestType>& values = value;
      check(kernels, c, value.view(), [&](auto j, auto x) { return values.at(j, x); });
      CHECK(value.intact(c.keys * c.features));
    });
  });
}

TEMPLATE_TEST_CASE("pack_values transposes values whose keys lie side by side", "[pack_values]",
                   float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep([&](const Case& c, Random& random) {
      Matrix<TestType> value(c.features, c.keys, c.unit);
      value.fill(c.features, random);
      const Matrix<TestType>& values = value;
      const heed::MatrixView<TestType> rows = value.view();
      check(kernels, c, {rows.data, rows.column_stride, rows.row_stride},
            [&](auto j, auto x) { return values.at(x, j); });
      CHECK(value.intact(c.keys * c.features));
    });
  });
}
