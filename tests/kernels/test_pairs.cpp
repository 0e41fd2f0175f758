// Products of pairs of bfloat16, against sums in a wider type. Queries, keys and values are
// bfloat16 numbers, so that nothing is rounded but sums and weights, and the tests' own packing
// knows nothing of the kernels' order but what table.hpp says of it.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

constexpr std::size_t kBlock = heed::PanelGeometry::value_block;
constexpr double kSmallest = kSmallestOf<float>;

/// The bfloat16 nearest to x, as a float.
float rounded(float x) {
  const std::uint32_t bits = bits_of(x);
  return real_of<float>((bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U);
}

/// The two numbers of a pair.
float half_of(float pair, std::size_t which) {
  return real_of<float>(which == 0 ? bits_of(pair) << 16 : bits_of(pair) & 0xffff0000U);
}
float pair_of(float even, float odd) {
  return real_of<float>(bits_of(even) >> 16 | (bits_of(odd) & 0xffff0000U));
}

using Pairs = heed::ProductKernels<float>;

/// Groups of numbers that are multiplied at a time, and pairs in all of them.
std::size_t groups_of(const Pairs& pairs, std::size_t numbers) {
  return (numbers + pairs.depth - 1) / pairs.depth;
}
std::size_t lines_of(const Pairs& pairs, std::size_t numbers) {
  return groups_of(pairs, numbers) * static_cast<std::size_t>(pairs.elements());
}

/// Calls function(kernels, their pairs, case, generator).
template <class Function>
void for_each_pairs(const std::vector<Case>& cases, Function&& function) {
  for_each_pair_case(cases, [&](const Table<float>& kernels, const Case& c, Random& random) {
    const Pairs& pairs = *kernels.pairs;
    if (pairs.begin != nullptr) pairs.begin();
    const double ratio = function(kernels, pairs, c, random);
    if (pairs.end != nullptr) pairs.end();
    return ratio;
  });
}

/// A panel of queries, in bfloat16, and keys.
struct Queries {
  Queries(const Pairs& pairs, const Case& whole, Random& random, float scale, std::size_t present)
      : c(whole),
        rows_present(present),
        rows(present, c.features, c.unit),
        lines(lines_of(pairs, c.features)),
        keys(c.keys * lines),
        panel((lines + 1) * c.pitch) {
    std::vector<const float*> from;
    for (std::size_t r = 0; r < present; ++r) {
      for (std::size_t x = 0; x < c.features; ++x) rows.at(r, x) = rounded(random.normal());
      from.push_back(rows.row(r));
    }
    for (std::size_t j = 0; j < c.keys; ++j)
      for (std::size_t i = 0; i < lines; ++i)
        keys[j * lines + i] = pair_of(2 * i < c.features ? rounded(random.normal()) : 0.0F,
                                      2 * i + 1 < c.features ? rounded(random.normal()) : 0.0F);
    pairs.pack_query(c.vectors, from.data(), present, rows.column_stride(), c.features, scale,
                     panel.data());
  }

  float key(std::size_t j, std::size_t x) const { return half_of(keys[j * lines + x / 2], x % 2); }
  heed::RowsView<float> view() const { return {keys.data(), static_cast<std::ptrdiff_t>(lines)}; }
  /// The score of key j and row r times `scale`, and how far off one may be: a product in a float
  /// is exact, each of the sums rounds once, the factor and its product twice; and each may flush.
  double ratio(float got, std::size_t j, std::size_t r, double scale) const {
    double sum = 0;
    double magnitude = 0;
    for (std::size_t x = 0; r < rows_present && x < c.features; ++x) {
      const double term = static_cast<double>(rows.at(r, x)) * static_cast<double>(key(j, x));
      sum += term * scale;
      magnitude += std::fabs(term * scale);
    }
    const auto terms = static_cast<double>(c.features);
    return error_ratio(got, sum, gamma_of(terms + 3) * magnitude + 4 * (terms + 1) * kSmallest);
  }

  Case c;
  std::size_t rows_present;
  Matrix<float> rows;
  std::size_t lines;  ///< pairs of features
  Buffer keys, panel;
};

/// Weights and values of bfloat16, some more of them than the range of keys.
struct Values {
  Values(const Pairs& pairs, const Case& whole, Random& random)
      : c(whole),
        value(c.keys, c.features, c.unit),
        weights(filled<float>(c.keys * c.pitch, [&] { return static_cast<float>(random.unit()); })),
        packed(lines_of(pairs, c.keys) * round_up(c.features, kBlock)),
        sums(normals<float>(round_up(c.features, heed::PanelGeometry::row_padding) * c.pitch,
                            random)),
        row_sum(filled<float>(c.pitch, [&] { return static_cast<float>(random.unit()); })),
        sums_before(sums),
        row_sum_before(row_sum) {
    for (std::size_t j = 0; j < c.keys; ++j)
      for (std::size_t x = 0; x < c.features; ++x) value.at(j, x) = rounded(random.normal());
  }

  void run(const Pairs& pairs, const heed::KeyRanges& keys, bool fresh) {
    pairs.pack_values(value.view(), c.keys, c.features, packed.data());
    pairs.accumulate(c.vectors, view(pairs), keys, heed::PanelGeometry::run, weights.data(),
                     {nullptr, row_sum.data(), sums.data(), fresh}, c.features);
  }
  heed::ValueView<float> view(const Pairs& pairs) const {
    return {packed.data(), static_cast<std::ptrdiff_t>(kBlock) * pairs.elements(), pairs.elements(),
            static_cast<std::ptrdiff_t>(lines_of(pairs, c.keys) * kBlock)};
  }
  bool intact() const {
    return weights.intact() && packed.intact() && sums.intact() && row_sum.intact();
  }

  Case c;
  Matrix<float> value;
  Buffer weights, packed, sums, row_sum;
  const Buffer sums_before, row_sum_before;
};

/// A sum over the keys in a range, of what was there before and weights, rounded to bfloat16,
/// times value(j): sums of products in floats, each of which may flush. BFDOT rounds to odd, which
/// loses twice as much, but once for the two products of a pair and once for their sum with the
/// others; a range has half as many pairs as keys, and at most one more.
template <class Value>
double sum_ratio(float got, const Values& v, const heed::KeyRanges& keys, std::size_t r,
                 std::size_t lanes, double before, Value&& value) {
  double sum = before;
  double magnitude = std::fabs(before);
  double terms = 3;
  for (std::size_t j = 0; j < v.c.keys; ++j) {
    if (!needs(keys, r / lanes, j)) continue;
    const double term = static_cast<double>(rounded(v.weights[j * v.c.pitch + r])) * value(j);
    sum += term;
    magnitude += std::fabs(term);
    terms += 1;
  }
  return error_ratio(got, sum, gamma_of(terms) * magnitude + terms * kSmallest);
}

}  // namespace

TEST_CASE("pairs: scores are scaled products of queries and keys", "[pairs]") {
  for_each_pairs(
      sizes(), [](const auto& kernels, const Pairs& pairs, const Case& c, Random& random) {
        const auto scale = random.pick<float>({1.0F, 0.18033688F, -3.7F, 1e-5F});
        const Queries q(pairs, c, random, scale, random.pick(row_counts(c)));
        CHECK(q.panel.intact());
        const heed::KeyRanges ranges = draw_ranges(c.keys, c.vectors, random);
        Buffer every(round_up(c.keys, heed::PanelGeometry::row_padding) * c.pitch);
        Buffer some(every.size());
        pairs.scores(c.vectors, q.view(), heed::all_keys(c.keys), q.panel.data(), c.features,
                     every.data());
        pairs.scores(c.vectors, q.view(), ranges, q.panel.data(), c.features, some.data());
        CHECK((every.intact() && some.intact()));
        CHECK(all(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
          const std::size_t at = j * c.pitch + r;
          return !needs(ranges, r / kernels.panels.lanes, j) || same_bits(some[at], every[at]);
        }));
        return worst_of(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
          return q.ratio(every[j * c.pitch + r], j, r, static_cast<double>(scale));
        });
      });
}

TEST_CASE("pairs: accumulate rounds weights, and sums what it rounded", "[pairs]") {
  for (const bool fresh : {true, false})
    for_each_pairs(
        sizes(), [&](const auto& kernels, const Pairs& pairs, const Case& c, Random& random) {
          Values v(pairs, c, random);
          const heed::KeyRanges ranges =
              c.seed % 2 == 0 ? heed::all_keys(c.keys) : draw_ranges(c.keys, c.vectors, random);
          v.run(pairs, ranges, fresh);
          CHECK(v.intact());
          const std::size_t lanes = kernels.panels.lanes;
          const double sums = worst_of(c.features, c.pitch, [&](std::size_t x, std::size_t r) {
            const std::size_t at = x * c.pitch + r;
            return sum_ratio(v.sums[at], v, ranges, r, lanes, fresh ? 0 : v.sums_before[at],
                             [&](std::size_t j) { return static_cast<double>(v.value.at(j, x)); });
          });
          return std::max(sums, worst_of(1, c.pitch, [&](std::size_t, std::size_t r) {
                            return sum_ratio(v.row_sum[r], v, ranges, r, lanes, v.row_sum_before[r],
                                             [](std::size_t) { return 1.0; });
                          }));
        });
}

TEST_CASE("pairs: a panel is multiplied with a matrix", "[pairs]") {
  for (const bool fresh : {true, false})
    for_each_pairs(
        sizes(), [&](const auto& kernels, const Pairs& pairs, const Case& c, Random& random) {
          Values v(pairs, c, random);
          std::vector<std::vector<float>> rows(c.pitch, std::vector<float>(c.keys));
          std::vector<const float*> from;
          for (std::size_t r = 0; r < c.pitch; ++r) {
            for (std::size_t j = 0; j < c.keys; ++j)
              rows[r][j] = rounded(v.weights[j * c.pitch + r]);
            from.push_back(rows[r].data());
          }
          Buffer panel((lines_of(pairs, c.keys) + 1) * c.pitch);
          pairs.pack_query(c.vectors, from.data(), c.pitch, 1, c.keys, 1, panel.data());
          pairs.pack_values(v.value.view(), c.keys, c.features, v.packed.data());
          pairs.multiply_panel(c.vectors, v.view(pairs), c.keys, panel.data(), v.sums.data(),
                               c.features, fresh);
          CHECK((v.intact() && panel.intact()));
          return worst_of(c.features, c.pitch, [&](std::size_t x, std::size_t r) {
            const std::size_t at = x * c.pitch + r;
            return sum_ratio(v.sums[at], v, heed::all_keys(c.keys), r, kernels.panels.lanes,
                             fresh ? 0 : v.sums_before[at],
                             [&](std::size_t j) { return static_cast<double>(v.value.at(j, x)); });
          });
        });
}

TEST_CASE("pairs: softmax leaves row_sum to accumulate", "[pairs]") {
  for_each_pairs(tiles(11), [](const auto& kernels, const Pairs& pairs, const Case& c,
                               Random& random) {
    const auto scores = filled<float>(c.keys * c.pitch, [&] { return 20 * random.normal(); });
    const auto run = [&](const Pairs& products, Buffer& probs, Buffer& row_max, Buffer& row_sum) {
      Buffer accumulators(round_up(c.features, heed::PanelGeometry::row_padding) * c.pitch);
      products.softmax(c.vectors, probs.data(), heed::all_keys(c.keys), 0,
                       {row_max.data(), row_sum.data(), accumulators.data(), true}, c.features);
    };
    Buffer probs[2] = {scores, scores};
    const auto none = filled<float>(c.pitch, [] { return heed::kNoRowMax<float>; });
    Buffer row_max[2] = {none, none};
    const auto zeros = filled<float>(c.pitch, [] { return 0.0F; });
    Buffer row_sum[2] = {zeros, zeros};
    run(pairs, probs[0], row_max[0], row_sum[0]);
    run(kernels.panels, probs[1], row_max[1], row_sum[1]);
    CHECK((same_bits(probs[0], probs[1]) && same_bits(row_max[0], row_max[1])));
    CHECK(same_bits(row_sum[0], zeros));
    return 0.0;
  });
}

TEST_CASE("pairs: qk_softmax is scores and softmax", "[pairs]") {
  for_each_pairs(sizes(), [](const auto& /*kernels*/, const Pairs& pairs, const Case& c,
                             Random& random) {
    if (c.keys % heed::PanelGeometry::row_padding != 0) return 0.0;
    const Queries q(pairs, c, random, 0.3F, c.pitch);
    const std::size_t rows = c.keys * c.pitch;
    Buffer scores(rows);
    pairs.scores(c.vectors, q.view(), heed::all_keys(c.keys), q.panel.data(), c.features,
                 scores.data());
    // A reference above all scores, which nothing outgrows: every weight is then known.
    auto row_max = filled<float>(c.pitch, [] { return 0.0F; });
    for (std::size_t i = 0; i < rows; ++i)
      row_max[i % c.pitch] = std::max(row_max[i % c.pitch], scores[i]);
    const Buffer before = row_max;
    auto row_sum = filled<float>(c.pitch, [] { return 0.5F; });
    Buffer probs(rows);
    Buffer unused(c.pitch);
    pairs.qk_softmax(c.vectors, q.view(), c.keys, q.panel.data(), c.features, probs.data(), 0,
                     {row_max.data(), row_sum.data(), unused.data(), true}, 0);
    CHECK((probs.intact() && same_bits(row_max, before)));
    CHECK(all(c.pitch, [&](std::size_t r) { return row_sum[r] == 0.5F; }));
    return worst_of(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
      const std::size_t at = j * c.pitch + r;
      const double difference = static_cast<double>(scores[at]) - static_cast<double>(before[r]);
      const double weight = std::exp2(difference);
      const double error = std::exp2(kUnit * std::fabs(difference)) * (1 + 2 * kUnit) - 1;
      return error_ratio(probs[at], weight, weight * error + kSmallest);
    });
  });
}

TEST_CASE("pairs: subnormal numbers count as 0, and so do weights", "[pairs]") {
  for_each_pairs({{1, 2, 2, true, 1}}, [](const auto& /*kernels*/, const Pairs& pairs,
                                          const Case& c, Random& random) {
    Queries q(pairs, c, random, 1, 1);
    q.keys[0] = pair_of(real_of<float>(0x00400000U), 0);  // 2^-127
    q.keys[q.lines] = pair_of(rounded(1), 0);
    Buffer scores(round_up(c.keys, heed::PanelGeometry::row_padding) * c.pitch);
    pairs.scores(c.vectors, q.view(), heed::all_keys(2), q.panel.data(), c.features, scores.data());
    CHECK(scores[0] == 0);
    CHECK(scores[c.pitch] == q.rows.at(0, 0));
    Values v(pairs, c, random);
    v.weights[0] = real_of<float>(0x00400000U);
    v.weights[c.pitch] = 1;
    v.run(pairs, heed::all_keys(2), true);
    CHECK(v.sums[0] == v.value.at(1, 0));
    CHECK(v.row_sum[0] == v.row_sum_before[0] + 1);
    return 0.0;
  });
}

TEST_CASE("pairs: rows are rounded, and 0 past their columns", "[pairs]") {
  for (const std::size_t columns : {1U, 7U, 16U, 23U, 31U, 48U})
    for_each_pairs({{1, 1, 5, true, 1}}, [=](const auto& /*kernels*/, const Pairs& pairs,
                                             const Case& c, Random& random) {
      const std::size_t pitch = 48;
      const std::size_t width = 2 * lines_of(pairs, pitch);
      const auto from = filled<float>(c.keys * pitch, [&] { return random.normal(); });
      const std::size_t to_pitch = width + 6;
      Buffer to(c.keys * to_pitch / 2);
      pairs.round_rows(from.data(), pitch, c.keys, columns, width,
                       reinterpret_cast<std::uint16_t*>(to.data()), to_pitch);
      CHECK(to.intact());
      CHECK(all(c.keys, [&](std::size_t j) { return is_canary(to[(j * to_pitch + width) / 2]); }));
      return worst_of(c.keys, width, [&](std::size_t j, std::size_t r) {
        const float got = half_of(to[(j * to_pitch + r) / 2], r % 2);
        return wrong_unless(got == (r < columns ? rounded(from[j * pitch + r]) : 0));
      });
    });
}
