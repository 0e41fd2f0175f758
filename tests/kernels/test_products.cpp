// scores: every key with every query of a panel; add_scores: added to what is there. accumulate:
// weights times values, added to what is there, keys in order; multiply_panel: a panel instead of
// weights. Of numbers, of pairs and of parts, against sums in a wider type.
#include "tests/kernels/products.hpp"

using namespace heed_test;

namespace {

/// A key, and what is there of its rows: for kernels whose results do not depend on neighbours.
std::size_t any_key(const Case& c, Random& random) {
  return static_cast<std::size_t>(random.bits() % c.keys);
}

}  // namespace

// A score that a vector needs does not depend on what others need, nor on other keys. Rows past the
// keys are untouched or hold some key's scores.
TEMPLATE_TEST_CASE("scores are scaled products of queries and keys", "[pairs][scores]", float,
                   double) {
  for_each_products<TestType>(
      sizes(), [](const auto& kernels, const auto& tested, const Case& c, Random& random) {
        const auto scale =
            random.pick<TestType>({1, TestType(0.18033688F), TestType(-3.7F), TestType(1e-5F)});
        const Queries<TestType> q(tested, c, random, scale, random.pick(row_counts(c)));
        const heed::KeyRanges ranges = draw_ranges(c.keys, c.vectors, random);
        const auto every = q.scores();
        const auto some = q.scores(ranges);
        CHECK(all(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
          const std::size_t at = j * c.pitch + r;
          return !needs(ranges, r / kernels.panels.lanes, j) || same_bits(some[at], every[at]);
        }));
        if (tested.plain()) {
          const std::size_t key = any_key(c, random);
          const auto alone = q.scores(heed::all_keys(1), key);
          CHECK(all(c.pitch,
                    [&](std::size_t r) { return same_bits(alone[r], every[key * c.pitch + r]); }));
          CHECK(all(every.size() - c.keys * c.pitch, [&](std::size_t i) {
            const TestType score = every[c.keys * c.pitch + i];
            return is_canary(score) || !all(c.keys, [&](std::size_t j) {
                     return !same_bits(score, every[j * c.pitch + i % c.pitch]);
                   });
          }));
        }
        return worst_of(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
          return q.ratio(every[j * c.pitch + r], j, r);
        });
      });
}

TEMPLATE_TEST_CASE("add_scores adds products to what is there, each row by itself", "[scores]",
                   float, double) {
  for_each_case<TestType>(sizes(), [](const auto& kernels, const Case& c, Random& random) {
    const Tested<TestType> plain = {kernels.panels};
    const Queries<TestType> q(plain, c, random, 1, c.pitch);
    const auto before = normals<TestType>(c.keys * c.pitch, random);
    const auto add = [&](std::size_t first, std::size_t count) {
      auto sums = before;
      const auto view = q.view(first);
      heed::RowsAndPanel<TestType> parts[3];  // of which the first may be empty
      const std::size_t ends[] = {c.features / 5, c.features / 2 + 1, c.features};
      std::size_t begin = 0;
      for (std::size_t p = 0; p < std::size(parts); begin = std::min(ends[p++], c.features))
        parts[p] = {{view.data + begin, view.row_stride},
                    q.panel.data() + begin * c.pitch,
                    std::min(ends[p], c.features) - begin};
      kernels.panels.add_scores(c.vectors, parts, std::size(parts), count,
                                sums.data() + first * c.pitch);
      CHECK(sums.intact());
      return sums;
    };
    const auto together = add(0, c.keys);
    const std::size_t key = any_key(c, random);
    const auto alone = add(key, 1);
    CHECK(all(c.keys * c.pitch, [&](std::size_t i) {
      return same_bits(alone[i], i / c.pitch == key ? together[i] : before[i]);
    }));
    return worst_of(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
      return q.score(j, r, before[j * c.pitch + r]).ratio(together[j * c.pitch + r]);
    });
  });
}

// Pairs sum the weights as they round them. What a vector does not need may be anything.
TEMPLATE_TEST_CASE("accumulate adds weighted values, in place, packed and in two steps",
                   "[pairs][accumulate]", float, double) {
  using Real = TestType;
  for (const bool fresh : {true, false})
    for_each_products<Real>(sizes(), [&](const auto& kernels, const Tested<Real>& tested,
                                         const Case& c, Random& random) {
      Values<Real> v(tested, c, random);
      const heed::KeyRanges every = heed::all_keys(c.keys);
      const heed::KeyRanges ranges =
          c.seed % 2 == 0 ? every : draw_ranges(c.keys, c.vectors, random);
      const auto weight = [&](std::size_t j, std::size_t r) {
        const bool needed = needs(ranges, r / kernels.panels.lanes, j);
        return needed ? tested.weight(v.weights[j * c.pitch + r])
                      : std::numeric_limits<Wide<Real>>::quiet_NaN();
      };
      auto row_sum = v.row_sum;
      if (tested.plain()) {
        auto twice = v.accumulate(v.view(), fresh, every, row_sum);
        CHECK(v.same(v.accumulate(v.in_place(), fresh, every, row_sum), twice));
        const std::size_t half = c.keys / 2 / kRun * kRun;  // in whole runs
        if (half > 0) {
          const auto once = v.accumulate(v.view(), true, every, row_sum);
          twice = v.accumulate(v.view(), true, heed::all_keys(half), row_sum);
          tested.products.accumulate(c.vectors, v.view(half), heed::all_keys(c.keys - half), kRun,
                                     v.weights.data() + half * c.pitch,
                                     {nullptr, nullptr, twice.data(), false}, c.features);
          CHECK(v.same(once, twice));
        }
        for (std::size_t i = 0; i < v.weights.size(); ++i)
          if (std::isnan(weight(i / c.pitch, i % c.pitch))) v.weights[i] = not_a_number<Real>();
      }
      const auto sums = v.accumulate(v.view(), fresh, ranges, row_sum);
      const double worst =
          v.worst(sums, fresh, weighted_terms_of<Wide<Real>>(tested.parts), weight);
      return std::max(worst, worst_of(1, c.pitch, [&](std::size_t, std::size_t r) {
                        if (tested.plain())
                          return wrong_unless(same_bits(row_sum[r], v.row_sum[r]));
                        Sum<Real> want{v.row_sum[r]};
                        for (std::size_t j = 0; j < c.keys; ++j)
                          if (const auto w = weight(j, r); !std::isnan(w)) want.add(w, 1);
                        if (tested.pairs())
                          return tested.ratio(row_sum[r], want, 0, 0, want.terms + 3);
                        return want.ratio(row_sum[r], static_cast<Wide<Real>>(c.keys + 1));
                      }));
    });
}

// Of numbers bit for bit what accumulate makes of the panel.
TEMPLATE_TEST_CASE("a panel is multiplied with a matrix", "[pairs][accumulate]", float, double) {
  using Real = TestType;
  for (const bool fresh : {true, false})
    for_each_products<Real>(
        sizes(), [&](const auto&, const Tested<Real>& tested, const Case& c, Random& random) {
          Values<Real> v(tested, c, random);
          Matrix<Real> left(c.pitch, c.keys, true);
          tested.draw(left, c.pitch, c.keys, random);
          std::vector<const Real*> rows;
          for (std::size_t r = 0; r < c.pitch; ++r) rows.push_back(left.row(r));
          BasicBuffer<Real> panel((tested.elements_of(c.keys) + 1) * c.pitch);
          tested.products.pack_query(c.vectors, rows.data(), c.pitch, left.column_stride(), c.keys,
                                     1, panel.data());
          auto sums = v.start(fresh);
          tested.products.multiply_panel(c.vectors, v.view(), c.keys, panel.data(), sums.data(),
                                         c.features, fresh);
          CHECK((sums.intact() && panel.intact()));
          if (tested.plain()) {
            for (std::size_t i = 0; i < v.weights.size(); ++i) v.weights[i] = panel[i];
            CHECK(v.same(sums, v.accumulate(v.view(), fresh, heed::all_keys(c.keys), v.row_sum)));
          }
          return v.worst(
              sums, fresh, terms_of<Wide<Real>>(tested.parts),
              [&](std::size_t j, std::size_t r) { return static_cast<Wide<Real>>(left.at(r, j)); });
        });
}

TEST_CASE("pairs: subnormal numbers count as 0, and so do weights", "[pairs]") {
  for_each_pairs({{1, 2, 2, true, 1}},
                 [](const auto&, const Tested<float>& pairs, const Case& c, Random& random) {
                   Queries<float> q(pairs, c, random, 1, 1);
                   q.keys[0] = pair_of(real_of<float>(0x00400000U), 0);  // 2^-127
                   q.keys[q.lines] = pair_of(rounded(1), 0);
                   const Buffer scores = q.scores();
                   CHECK(scores[0] == 0);
                   CHECK(scores[c.pitch] == q.rows.at(0, 0));
                   Values<float> v(pairs, c, random);
                   v.weights[0] = real_of<float>(0x00400000U);
                   v.weights[c.pitch] = 1;
                   auto row_sum = v.row_sum;
                   const Buffer sums = v.accumulate(v.view(), true, heed::all_keys(2), row_sum);
                   CHECK(sums[0] == v.value.at(1, 0));
                   CHECK(row_sum[0] == v.row_sum[0] + 1);
                   return 0.0;
                 });
}

TEST_CASE("pairs: rows of bfloat16 are packed from where they lie as widened ones are", "[pairs]") {
  for_each_pairs(sizes(), [](const auto&, const Tested<float>& pairs, const Case& c,
                             Random& random) {
    if (pairs.products.pack_bf16_values == nullptr) return 0.0;
    const std::size_t stride = c.features + 3;
    const auto halves = [&](const Matrix<float>& from, std::size_t count) {
      std::vector<std::uint16_t> rows((count - 1) * stride + c.features);  // ends with the last row
      for (std::size_t j = 0; j < count; ++j)
        for (std::size_t x = 0; x < c.features; ++x)
          rows[j * stride + x] = static_cast<std::uint16_t>(bits_of(from.at(j, x)) >> 16);
      return rows;
    };
    const Values<float> v(pairs, c, random);
    Buffer packed(v.packed.size());
    pairs.products.pack_bf16_values(halves(v.value, c.keys).data(),
                                    static_cast<std::ptrdiff_t>(stride), c.keys, c.features,
                                    packed.data());
    CHECK(packed.intact());

    Queries<float> q(pairs, c, random, random.pick<float>({1, 0.18033688F, -3.7F, 1e-5F}),
                     random.pick(row_counts(c)));
    const Buffer scores = q.scores();
    const std::vector<std::uint16_t> rows = halves(q.rows, q.rows_present);
    std::vector<const std::uint16_t*> from;
    for (std::size_t r = 0; r < q.rows_present; ++r) from.push_back(rows.data() + r * stride);
    pairs.products.pack_bf16_query(c.vectors, from.data(), q.rows_present, c.features, q.scale,
                                   q.panel.data());
    return wrong_unless(same_bits(packed, v.packed, packed.size()) &&
                        same_bits(q.scores(), scores, c.keys * c.pitch));
  });
}

TEST_CASE("pairs: rows are rounded, and 0 past their columns", "[pairs]") {
  for (const std::size_t columns : {1U, 7U, 16U, 23U, 31U, 48U})
    for_each_pairs({{1, 1, 5, true, 1}}, [=](const auto&, const Tested<float>& pairs, const Case& c,
                                             Random& random) {
      const std::size_t pitch = 48;
      const std::size_t width = 2 * pairs.elements_of(pitch);
      const auto from = filled<float>(c.keys * pitch, [&] { return random.normal(); });
      const std::size_t to_pitch = width + 6;
      Buffer to(c.keys * to_pitch / 2);
      pairs.products.round_rows(from.data(), pitch, c.keys, columns, width,
                                reinterpret_cast<std::uint16_t*>(to.data()), to_pitch);
      CHECK(to.intact());
      CHECK(all(c.keys, [&](std::size_t j) { return is_canary(to[(j * to_pitch + width) / 2]); }));
      return worst_of(c.keys, width, [&](std::size_t j, std::size_t r) {
        const float got = half_of(to[(j * to_pitch + r) / 2], r % 2);
        return wrong_unless(got == (r < columns ? rounded(from[j * pitch + r]) : 0));
      });
    });
}
