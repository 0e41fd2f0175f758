// scores: every key with every query of a panel; add_scores: added to what is there. accumulate:
// weights times values, added to what is there, keys in order.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

constexpr std::size_t kPadding = heed::PanelGeometry::row_padding;
constexpr std::size_t kBlock = heed::PanelGeometry::value_block;
constexpr std::size_t kRun = heed::PanelGeometry::run;

/// The operands of `scores`.
template <class Real>
struct Queries {
  Queries(const Case& whole, Random& random)
      : c(whole),
        key(c.keys, c.features, c.unit, random, 1),
        panel(normals<Real>(c.features * c.pitch, random)) {}

  BasicBuffer<Real> scores(const Table<Real>& kernels, const heed::KeyRanges& keys,
                           std::size_t first = 0) const {
    BasicBuffer<Real> scores(round_up(c.keys, kPadding) * c.pitch);
    heed::RowsView<Real> view = key.rows();
    view.data += static_cast<std::ptrdiff_t>(first) * view.row_stride;
    kernels.panels.scores(c.vectors, view, keys, panel.data(), c.features, scores.data());
    return scores;
  }
  BasicBuffer<Real> add_scores(const Table<Real>& kernels, const BasicBuffer<Real>& before,
                               std::size_t first, std::size_t count) const {
    BasicBuffer<Real> sums = before;
    heed::RowsView<Real> view = key.rows();
    view.data += static_cast<std::ptrdiff_t>(first) * view.row_stride;
    heed::RowsAndPanel<Real> parts[3];  // of which the first may be empty
    const std::size_t ends[] = {c.features / 5, c.features / 2 + 1, c.features};
    std::size_t begin = 0;
    for (std::size_t p = 0; p < std::size(parts); begin = std::min(ends[p++], c.features))
      parts[p] = {{view.data + begin, view.row_stride},
                  panel.data() + begin * c.pitch,
                  std::min(ends[p], c.features) - begin};
    kernels.panels.add_scores(c.vectors, parts, std::size(parts), count,
                              sums.data() + first * c.pitch);
    return sums;
  }

  Case c;
  Matrix<Real> key;
  BasicBuffer<Real> panel;
};

/// The operands of `accumulate`: values in whole groups, as it reads them where they lie.
template <class Real>
struct Values {
  Values(const Case& whole, Random& random)
      : c(whole),
        value(c.keys, round_up(c.features, kPadding), c.unit, random, 1),
        weights(filled<Real>(c.keys * c.pitch, [&] { return static_cast<Real>(random.unit()); })),
        before(normals<Real>(round_up(c.features, kPadding) * c.pitch, random)) {}

  heed::ValueView<Real> in_place() const {
    return {value.rows().data, value.rows().row_stride, 1, kBlock};
  }
  BasicBuffer<Real> accumulate(const Table<Real>& kernels, const heed::ValueView<Real>& view,
                               bool fresh, const heed::KeyRanges& keys) const {
    auto sums = fresh ? BasicBuffer<Real>(before.size()) : before;  // fresh: canaries, never read
    kernels.panels.accumulate(c.vectors, view, keys, kRun, weights.data(),
                              {nullptr, nullptr, sums.data(), fresh}, c.features);
    return sums;
  }

  Case c;
  Matrix<Real> value;
  BasicBuffer<Real> weights, before;
};

}  // namespace

// A score that a vector needs does not depend on what others need.
TEMPLATE_TEST_CASE("scores are dot products", "[scores]", float, double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const Queries<TestType> q(c, random);
    const auto scores = q.scores(kernels, heed::all_keys(c.keys));
    const heed::KeyRanges ranges = draw_ranges(c.keys, c.vectors, random);
    const auto some = q.scores(kernels, ranges);
    CHECK((scores.intact() && some.intact()));
    CHECK(all(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
      const std::size_t at = j * c.pitch + r;
      return same_bits(some[at], scores[at]) || !needs(ranges, r / kernels.panels.lanes, j);
    }));
    // Rows past the keys are untouched or hold some key's scores.
    CHECK(all(scores.size() - c.keys * c.pitch, [&](std::size_t i) {
      const TestType score = scores[c.keys * c.pitch + i];
      return is_canary(score) || !all(c.keys, [&](std::size_t j) {
               return !same_bits(score, scores[j * c.pitch + i % c.pitch]);
             });
    }));
    return worst_of(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
      Sum<TestType> sum;
      for (std::size_t x = 0; x < c.features; ++x)
        sum.add(q.key.at(j, x), q.panel[x * c.pitch + r]);
      return sum.ratio(scores[j * c.pitch + r]);
    });
  });
}

TEMPLATE_TEST_CASE("scores of one key do not depend on its neighbours", "[scores]", float, double) {
  for_each_case<TestType>(panels(40, 19), [](const auto& kernels, const Case& c, Random& random) {
    const Queries<TestType> q(c, random);
    const auto together = q.scores(kernels, heed::all_keys(c.keys));
    CHECK(all(c.keys, [&](std::size_t j) {
      const auto alone = q.scores(kernels, heed::all_keys(1), j);
      return all(c.pitch,
                 [&](std::size_t r) { return same_bits(alone[r], together[j * c.pitch + r]); });
    }));
  });
}

TEMPLATE_TEST_CASE("add_scores adds dot products to what is there, and to nothing else", "[scores]",
                   float, double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const Queries<TestType> q(c, random);
    const auto before = normals<TestType>(c.keys * c.pitch, random);
    const auto sums = q.add_scores(kernels, before, 0, c.keys);
    CHECK(sums.intact());
    return worst_of(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
      Sum<TestType> sum = {before[j * c.pitch + r]};
      for (std::size_t x = 0; x < c.features; ++x)
        sum.add(q.key.at(j, x), q.panel[x * c.pitch + r]);
      return sum.ratio(sums[j * c.pitch + r]);
    });
  });
}

TEMPLATE_TEST_CASE("sums of one row do not depend on its neighbours", "[scores]", float, double) {
  for_each_case<TestType>(panels(140, 19), [](const auto& kernels, const Case& c, Random& random) {
    const Queries<TestType> q(c, random);
    const auto before = normals<TestType>(c.keys * c.pitch, random);
    const auto together = q.add_scores(kernels, before, 0, c.keys);
    for (std::size_t j = 0; j < c.keys; ++j) {
      const auto alone = q.add_scores(kernels, before, j, 1);
      CHECK(all(c.keys * c.pitch, [&](std::size_t i) {
        return same_bits(alone[i], i / c.pitch == j ? together[i] : before[i]);
      }));
    }
  });
}

TEMPLATE_TEST_CASE("accumulate adds weighted values, in place and packed", "[accumulate]", float,
                   double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const Values<TestType> v(c, random);
    BasicBuffer<TestType> packed(round_up(c.features, kBlock) * c.keys);
    kernels.panels.pack_values(v.value.view(), c.keys, c.features, packed.data());
    const heed::ValueView<TestType> blocks = {packed.data(), kBlock, 1,
                                              static_cast<std::ptrdiff_t>(c.keys * kBlock)};
    double worst = 0;
    for (const bool fresh : {true, false}) {
      INFO((fresh ? "fresh" : "not fresh"));
      const auto sums = v.accumulate(kernels, v.in_place(), fresh, heed::all_keys(c.keys));
      const auto from_packed = v.accumulate(kernels, blocks, fresh, heed::all_keys(c.keys));
      CHECK(sums.intact());
      CHECK((same_bits(sums, from_packed, c.features * c.pitch) && from_packed.intact()));
      const double ratio = worst_of(c.features, c.pitch, [&](std::size_t x, std::size_t r) {
        Sum<TestType> sum = {fresh ? TestType{0} : v.before[x * c.pitch + r]};
        for (std::size_t j = 0; j < c.keys; ++j)
          sum.add(v.value.at(j, x), v.weights[j * c.pitch + r]);
        return sum.ratio(sums[x * c.pitch + r]);
      });
      CHECK(ratio <= 1);
      worst = std::max(worst, ratio);
    }
    return worst;
  });
}

TEMPLATE_TEST_CASE("accumulate in two steps is accumulate in one, bit for bit", "[accumulate]",
                   float, double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const std::size_t half = c.keys / 2 / kRun * kRun;  // in whole runs
    if (half == 0) return;
    const Values<TestType> v(c, random);
    heed::ValueView<TestType> view = v.in_place();
    const auto once = v.accumulate(kernels, view, true, heed::all_keys(c.keys));
    auto twice = v.accumulate(kernels, view, true, heed::all_keys(half));
    view.data += static_cast<std::ptrdiff_t>(half) * view.key_stride;
    kernels.panels.accumulate(c.vectors, view, heed::all_keys(c.keys - half), kRun,
                              v.weights.data() + half * c.pitch,
                              {nullptr, nullptr, twice.data(), false}, c.features);
    CHECK(same_bits(once, twice, c.features * c.pitch));
  });
}

TEMPLATE_TEST_CASE("multiply_panel is accumulate over all keys, bit for bit", "[accumulate]", float,
                   double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const Values<TestType> v(c, random);
    const auto view = v.in_place();
    for (const bool fresh : {true, false}) {
      const auto want = v.accumulate(kernels, view, fresh, heed::all_keys(c.keys));
      auto got = fresh ? BasicBuffer<TestType>(v.before.size()) : v.before;
      kernels.panels.multiply_panel(c.vectors, view, c.keys, v.weights.data(), got.data(),
                                    c.features, fresh);
      CHECK(got.intact());
      CHECK(all(c.features * c.pitch, [&](std::size_t i) { return same_bits(got[i], want[i]); }));
    }
  });
}

TEMPLATE_TEST_CASE("accumulate leaves out the pairs that a vector does not need", "[accumulate]",
                   float, double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    Values<TestType> v(c, random);
    const heed::KeyRanges ranges = draw_ranges(c.keys, c.vectors, random);
    Values<TestType> with_zeros = v;
    for (std::size_t i = 0; i < c.keys * c.pitch; ++i) {
      if (needs(ranges, i % c.pitch / kernels.panels.lanes, i / c.pitch)) continue;
      v.weights[i] = not_a_number<TestType>();
      with_zeros.weights[i] = 0;
    }
    for (const bool fresh : {true, false}) {
      const auto got = v.accumulate(kernels, v.in_place(), fresh, ranges);
      const auto want =
          with_zeros.accumulate(kernels, with_zeros.in_place(), fresh, heed::all_keys(c.keys));
      // Equal but for the sign of 0.
      CHECK(all(c.features * c.pitch, [&](std::size_t i) { return got[i] == want[i]; }));
      CHECK(got.intact());
    }
  });
}
