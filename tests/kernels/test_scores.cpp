// scores: every key with every query of a panel.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// A sum of D products is within gamma_of(D) of the sum of their magnitudes.
template <class Real>
double worst_ratio(const Case& c, const Matrix<Real>& key, const BasicBuffer<Real>& panel,
                   const BasicBuffer<Real>& scores, std::size_t pitch) {
  double worst = 0;
  for (std::size_t j = 0; j < c.keys; ++j) {
    for (std::size_t r = 0; r < pitch; ++r) {
      Wide<Real> sum = 0;
      Wide<Real> magnitude = 0;
      for (std::size_t x = 0; x < c.features; ++x) {
        const Wide<Real> product = static_cast<Wide<Real>>(key.at(j, x)) * panel[x * pitch + r];
        sum += product;
        magnitude += std::fabs(product);
      }
      const auto n = static_cast<Wide<Real>>(c.features);
      const Wide<Real> bound = gamma_of<Real>(n) * magnitude + n * kUnderflowOf<Real>;
      worst = std::max(worst, error_ratio(scores[j * pitch + r], sum, bound));
    }
  }
  return worst;
}

/// Rows past the keys are untouched or hold some key's scores.
template <class Real>
bool padding_is_scores(const Case& c, const BasicBuffer<Real>& scores, std::size_t pitch) {
  bool ok = true;
  for (std::size_t i = c.keys * pitch;
       i < round_up(c.keys, heed::PanelGeometry::row_padding) * pitch; ++i) {
    bool found = is_canary(scores[i]);
    for (std::size_t j = 0; j < c.keys && !found; ++j)
      found = same_bits(scores[i], scores[j * pitch + i % pitch]);
    ok = ok && found;
  }
  return ok;
}

}  // namespace

TEMPLATE_TEST_CASE("scores are dot products", "[scores]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    double worst = 0;
    sweep([&](const Case& c, Random& random) {
      const std::size_t pitch = c.vectors * kernels.panels.lanes;
      Matrix<TestType> key(c.keys, c.features, c.unit);
      key.fill(c.keys, random);
      BasicBuffer<TestType> panel(c.features * pitch);
      panel.fill([&] { return random.normal<TestType>(); });
      BasicBuffer<TestType> scores(round_up(c.keys, heed::PanelGeometry::row_padding) * pitch);
      kernels.panels.scores(c.vectors, key.view(), heed::all_keys(c.keys), panel.data(), c.features,
                            scores.data());
      const double ratio = worst_ratio(c, key, panel, scores, pitch);
      CHECK(ratio <= 1);
      CHECK(scores.intact());
      CHECK(padding_is_scores(c, scores, pitch));
      worst = std::max(worst, ratio);
    });
    report("scores", kernels, worst);
  });
}

TEMPLATE_TEST_CASE("scores of one key do not depend on its neighbours", "[scores]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    constexpr std::size_t kKeys = 19;
    constexpr std::size_t kFeatures = 40;
    for (std::size_t vectors = 1; vectors <= 3; ++vectors) {
      INFO("vectors " << vectors);
      const std::size_t pitch = vectors * kernels.panels.lanes;
      Random random(vectors);
      Matrix<TestType> key(kKeys, kFeatures, true);
      key.fill(kKeys, random);
      BasicBuffer<TestType> panel(kFeatures * pitch);
      panel.fill([&] { return random.normal<TestType>(); });
      BasicBuffer<TestType> together(round_up(kKeys, heed::PanelGeometry::row_padding) * pitch);
      kernels.panels.scores(vectors, key.view(), heed::all_keys(kKeys), panel.data(), kFeatures,
                            together.data());
      bool equal = true;
      for (std::size_t j = 0; j < kKeys; ++j) {
        BasicBuffer<TestType> alone(heed::PanelGeometry::row_padding * pitch);
        heed::MatrixView<TestType> view = key.view();
        view.data += static_cast<std::ptrdiff_t>(j) * view.row_stride;
        kernels.panels.scores(vectors, view, heed::all_keys(1), panel.data(), kFeatures,
                              alone.data());
        for (std::size_t r = 0; r < pitch; ++r)
          equal = equal && same_bits(alone[r], together[j * pitch + r]);
      }
      CHECK(equal);
    }
  });
}

TEMPLATE_TEST_CASE("scores that a vector needs do not depend on what others need", "[scores]",
                   float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep([&](const Case& c, Random& random) {
      const std::size_t pitch = c.vectors * kernels.panels.lanes;
      Matrix<TestType> key(c.keys, c.features, c.unit);
      key.fill(c.keys, random);
      BasicBuffer<TestType> panel(c.features * pitch);
      panel.fill([&] { return random.normal<TestType>(); });
      BasicBuffer<TestType> all(round_up(c.keys, heed::PanelGeometry::row_padding) * pitch);
      kernels.panels.scores(c.vectors, key.view(), heed::all_keys(c.keys), panel.data(), c.features,
                            all.data());
      const heed::KeyRanges ranges = draw_ranges(c.keys, c.vectors, random);
      BasicBuffer<TestType> some(all.size());
      kernels.panels.scores(c.vectors, key.view(), ranges, panel.data(), c.features, some.data());
      bool equal = true;
      for (std::size_t i = 0; i < c.keys * pitch; ++i)
        equal = equal && (same_bits(some[i], all[i]) ||
                          !needs(ranges, i % pitch / kernels.panels.lanes, i / pitch));
      CHECK(equal);
      CHECK(some.intact());
    });
  });
}
