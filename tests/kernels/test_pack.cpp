// pack_query: a transposed, scaled copy, one rounding per element. pack_values: blocks of features,
// keys one after the other inside, zeros past the last feature. finish: accumulators / sum, back to
// rows, and normalise, which leaves the same in its panel.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

constexpr std::size_t kBlock = heed::PanelGeometry::value_block;

/// Packs what `view` shows of a matrix; at(j, x) is feature x of key j.
template <class Real, class At>
void check_values(const Table<Real>& kernels, const Case& c, const Matrix<Real>& matrix,
                  const heed::MatrixView<Real>& view, At&& at) {
  const std::size_t width = round_up(c.features, kBlock);
  BasicBuffer<Real> packed(width * c.keys);
  kernels.panels.pack_values(view, c.keys, c.features, packed.data());
  CHECK(all(width, c.keys, [&](std::size_t x, std::size_t j) {
    const std::size_t place = (x / kBlock * c.keys + j) * kBlock + x % kBlock;
    return same_bits(packed[place], x < c.features ? at(j, x) : Real{0});
  }));
  CHECK(packed.intact());
  CHECK(matrix.intact(c.keys * c.features));
}

/// What finish and normalise divide, and the sums as rows have them: mostly numbers from 1 on, some
/// 0 (nothing attended), NaN or tiny.
template <class Real>
struct Quotients {
  Quotients(const Case& whole, Random& random)
      : c(whole),
        accumulators(normals<Real>(round_up(c.features, heed::PanelGeometry::row_padding) * c.pitch,
                                   random)),
        before(accumulators),
        sum(filled<Real>(c.pitch, [&](std::size_t r) {
          return r % 7 == 3   ? Real{0}
                 : r % 7 == 5 ? not_a_number<Real>()
                              : 1 + 100 * static_cast<Real>(random.unit());
        })) {}

  /// finish to the first `rows` rows; out_row(i) is the row of `out` that row i becomes.
  template <class OutRow>
  void finish(const Table<Real>& kernels, Matrix<Real>& out, std::size_t rows, OutRow&& out_row,
              bool past_caches = false) {
    std::vector<Real*> pointers;
    for (std::size_t r = 0; r < rows; ++r) pointers.push_back(out.row(out_row(r)));
    kernels.panels.finish(c.vectors, accumulators.data(), sum.data(), c.features, pointers.data(),
                          rows, out.column_stride(), past_caches);
  }

  /// The worst error / bound of the first `rows` rows, with a reciprocal and a product: two
  /// roundings.
  template <class Got>
  double worst(std::size_t rows, Got&& got) const {
    return worst_of(rows, c.features, [&](std::size_t r, std::size_t x) {
      const Wide<Real> exact =
          sum[r] == 0 ? 0 : static_cast<Wide<Real>>(before[x * c.pitch + r]) / sum[r];
      return error_ratio<Real>(got(r, x), exact, gamma_of<Real>(2) * std::fabs(exact));
    });
  }

  bool intact() const {
    return accumulators.intact() && sum.intact() && same_bits(accumulators, before);
  }

  Case c;
  BasicBuffer<Real> accumulators;
  const BasicBuffer<Real> before;
  BasicBuffer<Real> sum;
};

}  // namespace

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

TEMPLATE_TEST_CASE("pack_values copies values to their blocks", "[pack_values]", float, double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const Matrix<TestType> values(c.keys, c.features, c.unit, random);
    check_values(kernels, c, values, values.view(),
                 [&](auto j, auto x) { return values.at(j, x); });
  });
}

TEMPLATE_TEST_CASE("pack_values transposes values whose keys lie side by side", "[pack_values]",
                   float, double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const Matrix<TestType> values(c.features, c.keys, c.unit, random);
    const heed::MatrixView<TestType> rows = values.view();
    check_values(kernels, c, values, {rows.data, rows.column_stride, rows.row_stride},
                 [&](auto j, auto x) { return values.at(x, j); });
  });
}

TEMPLATE_TEST_CASE("finish divides and transposes back", "[finish]", float, double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    double worst = 0;
    for (const std::size_t rows : row_counts(c)) {
      INFO(rows << " rows");
      const auto out_row = [rows](std::size_t r) { return scattered(r, rows); };
      Quotients<TestType> q(c, random);
      Matrix<TestType> out(rows, c.features, c.unit);
      q.finish(kernels, out, rows, out_row);
      Matrix<TestType> past_caches(rows, c.features, c.unit);
      q.finish(kernels, past_caches, rows, out_row, true);
      CHECK(all(rows, c.features, [&](std::size_t r, std::size_t x) {
        return same_number(past_caches.at(r, x), out.at(r, x));
      }));
      CHECK(past_caches.intact(rows * c.features));
      const double ratio = q.worst(rows, [&](auto r, auto x) { return out.at(out_row(r), x); });
      CHECK(ratio <= 1);
      CHECK(out.intact(rows * c.features));
      CHECK(q.intact());
      worst = std::max(worst, ratio);
    }
    return worst;
  });
}

// Equal to what finish writes, since a caller may take either.
TEMPLATE_TEST_CASE("normalise divides where accumulators lie", "[normalise]", float, double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    Quotients<TestType> q(c, random);
    Matrix<TestType> rows(c.pitch, c.features, c.unit);
    q.finish(kernels, rows, c.pitch, [](std::size_t r) { return r; });
    BasicBuffer<TestType> to(c.features * c.pitch);
    kernels.panels.normalise(c.vectors, q.accumulators.data(), q.sum.data(), c.features, to.data());
    CHECK((q.intact() && to.intact()));
    CHECK(all(c.features, c.pitch, [&](std::size_t x, std::size_t r) {
      return same_number(to[x * c.pitch + r], rows.at(r, x));
    }));
    kernels.panels.normalise(c.vectors, q.accumulators.data(), q.sum.data(), c.features,
                             q.accumulators.data());
    CHECK(same_bits(q.accumulators, to, to.size()));
    return q.worst(c.pitch, [&](auto r, auto x) { return to[x * c.pitch + r]; });
  });
}
