// accumulate: weights times values, added to what is there, keys in order.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// The operands of one call.
template <class Real>
struct Operands {
  Operands(const Case& c, std::size_t pitch, Random& random)
      : value(c.keys, c.features, c.unit),
        weights(c.keys * pitch),
        before(round_up(c.features, heed::PanelGeometry::row_padding) * pitch) {
    value.fill(c.keys, random);
    weights.fill([&] { return static_cast<Real>(random.unit()); });
    before.fill([&] { return random.normal<Real>(); });
  }

  heed::ValueView<Real> in_place() const {
    const heed::MatrixView<Real> view = value.view();
    return {view.data, view.row_stride, view.column_stride,
            static_cast<std::ptrdiff_t>(heed::PanelGeometry::value_block) * view.column_stride};
  }

  Matrix<Real> value;
  BasicBuffer<Real> weights;
  BasicBuffer<Real> before;
};

/// A sum of n products and a start value is within gamma_of(n + 1) of the sum of magnitudes.
template <class Real>
double worst_ratio(const Case& c, const Operands<Real>& o, const BasicBuffer<Real>& got, bool fresh,
                   std::size_t pitch) {
  double worst = 0;
  for (std::size_t x = 0; x < c.features; ++x) {
    for (std::size_t r = 0; r < pitch; ++r) {
      Wide<Real> sum = fresh ? 0 : o.before[x * pitch + r];
      Wide<Real> magnitude = std::fabs(sum);
      for (std::size_t j = 0; j < c.keys; ++j) {
        const Wide<Real> product =
            static_cast<Wide<Real>>(o.value.at(j, x)) * o.weights[j * pitch + r];
        sum += product;
        magnitude += std::fabs(product);
      }
      const auto n = static_cast<Wide<Real>>(c.keys);
      const Wide<Real> bound = gamma_of<Real>(n + 1) * magnitude + n * kUnderflowOf<Real>;
      worst = std::max(worst, error_ratio(got[x * pitch + r], sum, bound));
    }
  }
  return worst;
}

template <class Real>
BasicBuffer<Real> accumulate(const Table<Real>& kernels, const Case& c, const Operands<Real>& o,
                             const heed::ValueView<Real>& view, bool fresh,
                             const heed::KeyRanges& keys) {
  auto sums =
      fresh ? BasicBuffer<Real>(o.before.size()) : o.before;  // fresh: canaries, never to be read
  kernels.panels.accumulate(c.vectors, view, keys, heed::PanelGeometry::run, o.weights.data(),
                            sums.data(), c.features, fresh);
  return sums;
}

}  // namespace

TEMPLATE_TEST_CASE("accumulate adds weighted values, in place and packed", "[accumulate]", float,
                   double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    double worst = 0;
    sweep([&](const Case& c, Random& random) {
      const std::size_t pitch = c.vectors * kernels.panels.lanes;
      const Operands<TestType> o(c, pitch, random);
      BasicBuffer<TestType> packed(round_up(c.features, heed::PanelGeometry::value_block) * c.keys);
      kernels.panels.pack_values(o.value.view(), c.keys, c.features, packed.data());
      const heed::ValueView<TestType> blocks = {
          packed.data(), heed::PanelGeometry::value_block, 1,
          static_cast<std::ptrdiff_t>(c.keys * heed::PanelGeometry::value_block)};
      for (const bool fresh : {true, false}) {
        INFO((fresh ? "fresh" : "not fresh"));
        const BasicBuffer<TestType> sums =
            accumulate(kernels, c, o, o.in_place(), fresh, heed::all_keys(c.keys));
        const double ratio = worst_ratio(c, o, sums, fresh, pitch);
        CHECK(ratio <= 1);
        CHECK(sums.intact());
        const BasicBuffer<TestType> from_packed =
            accumulate(kernels, c, o, blocks, fresh, heed::all_keys(c.keys));
        CHECK((same_bits(sums, from_packed, 0, c.features * pitch) && from_packed.intact()));
        worst = std::max(worst, ratio);
      }
    });
    report("accumulate", kernels, worst);
  });
}

TEMPLATE_TEST_CASE("accumulate in two steps is accumulate in one, bit for bit", "[accumulate]",
                   float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep([&](const Case& c, Random& random) {
      const std::size_t half =
          c.keys / 2 / heed::PanelGeometry::run * heed::PanelGeometry::run;  // in whole runs
      if (half == 0) return;
      const std::size_t pitch = c.vectors * kernels.panels.lanes;
      const Operands<TestType> o(c, pitch, random);
      const BasicBuffer<TestType> once =
          accumulate(kernels, c, o, o.in_place(), true, heed::all_keys(c.keys));
      BasicBuffer<TestType> twice(o.before.size());
      heed::ValueView<TestType> view = o.in_place();
      kernels.panels.accumulate(c.vectors, view, heed::all_keys(half), heed::PanelGeometry::run,
                                o.weights.data(), twice.data(), c.features, true);
      view.data += static_cast<std::ptrdiff_t>(half) * view.key_stride;
      kernels.panels.accumulate(c.vectors, view, heed::all_keys(c.keys - half),
                                heed::PanelGeometry::run, o.weights.data() + half * pitch,
                                twice.data(), c.features, false);
      CHECK(same_bits(once, twice, 0, c.features * pitch));
    });
  });
}

TEMPLATE_TEST_CASE("accumulate leaves out the pairs that a vector does not need", "[accumulate]",
                   float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep([&](const Case& c, Random& random) {
      const std::size_t pitch = c.vectors * kernels.panels.lanes;
      Operands<TestType> o(c, pitch, random);
      const heed::KeyRanges ranges = draw_ranges(c.keys, c.vectors, random);
      Operands<TestType> with_zeros = o;
      for (std::size_t i = 0; i < c.keys * pitch; ++i) {
        if (needs(ranges, i % pitch / kernels.panels.lanes, i / pitch)) continue;
        o.weights[i] = not_a_number<TestType>();
        with_zeros.weights[i] = 0;
      }
      for (const bool fresh : {true, false}) {
        const auto got = accumulate(kernels, c, o, o.in_place(), fresh, ranges);
        const auto want = accumulate(kernels, c, with_zeros, with_zeros.in_place(), fresh,
                                     heed::all_keys(c.keys));
        bool equal = true;  // but for the sign of 0
        for (std::size_t i = 0; i < c.features * pitch; ++i) equal = equal && got[i] == want[i];
        CHECK(equal);
        CHECK(got.intact());
      }
    });
  });
}
