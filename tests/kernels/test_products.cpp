// Products of pairs of bfloat16, and of floats as parts of it, against sums in a wider type.
// Numbers are those that products multiply whole, so that nothing is rounded but sums, weights and
// what parts leave out, and the tests' own packing knows nothing of the kernels' order but what
// table.hpp says of it.
#include <cstring>

#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

constexpr std::size_t kBlock = heed::PanelGeometry::value_block;
constexpr std::size_t kPadding = heed::PanelGeometry::row_padding;
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

using Products = heed::ProductKernels<float>;

/// A sum of products, the sizes of its terms, and those of what is multiplied.
struct Terms {
  double sum = 0;
  double size = std::fabs(sum);
  double factors = 0;
  double count = 0;

  void add(double a, double b) {
    sum += a * b;
    size += std::fabs(a * b);
    factors += std::fabs(a) + std::fabs(b);
    count += 1;
  }
};

/// Products, and what is known about them.
struct Tested {
  const Products& products;
  Parts parts;  ///< none: pairs

  bool pairs() const { return parts.count == 0; }

  /// A number of which they multiply all: a float, or a float16 or bfloat16 in its place.
  float number(Random& random) const {
    const float x = random.normal();
    if (pairs()) return rounded(x);
    if (!parts.exact) return x;
    return real_of<float>(bits_of(x) & (parts.count == 1 ? 0xffff0000U : 0xffffe000U));
  }
  void draw(Matrix<float>& matrix, std::size_t rows, std::size_t columns, Random& random) const {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t x = 0; x < columns; ++x) matrix.at(i, x) = number(random);
  }
  /// As products take it.
  double weight(float w) const { return static_cast<double>(pairs() ? rounded(w) : w); }

  /// Elements of so many numbers.
  std::size_t elements_of(std::size_t numbers) const {
    return (numbers + products.depth - 1) / products.depth *
           static_cast<std::size_t>(products.elements());
  }

  /// Error / bound of a sum in which `products` of `terms` parts' products each may have taken
  /// part.
  ///
  /// Of pairs, a product in a float is exact, each of the sums rounds once, a factor and its
  /// product twice; and each may flush, `flushes` times all in all. BFDOT rounds to odd, which
  /// loses twice as much, but once for the two products of a pair and once for their sum with the
  /// others; a range has half as many pairs as keys, and at most one more.
  double ratio(float got, const Terms& want, double terms, std::size_t taking_part,
               double flushes) const {
    if (pairs())
      return error_ratio(got, want.sum, gamma_of(want.count + 3) * want.size + flushes * kSmallest);
    const double all = terms * static_cast<double>(taking_part);
    const double relative = gamma_of(all + 2) + left_out<double>(parts);
    return error_ratio(got, want.sum,
                       relative * want.size +
                           2 * flushes_of<double>(parts) * kSmallest * (all + 1 + want.factors));
  }
  /// Of weights, which parts sum as they are.
  double ratio_of_weights(float got, const Terms& want, std::size_t keys) const {
    if (pairs()) return ratio(got, want, 0, 0, want.count + 3);
    return error_ratio(got, want.sum, gamma_of<float>(static_cast<double>(keys + 1)) * want.sum);
  }
};

/// Calls function(kernels, tested, case, generator) for pairs, where an instruction set has them.
template <class Function>
void check_products(const Table<float>& kernels, const Tested& tested,
                    const std::vector<Case>& cases, Function&& function) {
  check_cases(kernels, cases, [&](const Table<float>& table, const Case& c, Random& random) {
    if (tested.products.begin != nullptr) tested.products.begin();
    const double ratio = function(table, tested, c, random);
    if (tested.products.end != nullptr) tested.products.end();
    return ratio;
  });
}
template <class Function>
void for_each_pairs(const std::vector<Case>& cases, Function&& function) {
  for (const Table<float>* const kernels : usable_isas())
    if (kernels->pairs != nullptr) check_products(*kernels, {*kernels->pairs, {}}, cases, function);
}
/// And for parts.
template <class Function>
void for_each_products(Function&& function) {
  for_each_pairs(sizes(), function);
  for (const Table<float>* const kernels : usable_isas()) {
    const heed::PartKernels<float>& of = kernels->by_parts;
    if (of.three == nullptr) continue;
    for (const Tested& tested :
         {Tested{*of.three, {3}}, Tested{*of.two, {2}}, Tested{*of.exact_two, {2, true}},
          Tested{*of.exact_one, {1, true}}})
      check_products(*kernels, tested, sizes(), function);
  }
}

/// A panel of queries, of which so many are there, and keys as scores() wants them.
struct Queries {
  Queries(const Tested& of, const Case& whole, Random& random, float scale, std::size_t present)
      : tested(of),
        c(whole),
        rows_present(present),
        rows(present, c.features, c.unit),
        key(c.keys, c.features, c.unit, 1),
        lines(of.elements_of(c.features)),
        keys(c.keys * lines),
        panel((lines + 1) * c.pitch) {
    of.draw(rows, present, c.features, random);
    of.draw(key, c.keys, c.features, random);
    std::vector<const float*> from;
    for (std::size_t r = 0; r < present; ++r) from.push_back(rows.row(r));
    of.products.pack_query(c.vectors, from.data(), present, rows.column_stride(), c.features, scale,
                           panel.data());
    lay_out_keys();
  }

  void lay_out_keys() {
    if (tested.products.split_rows != nullptr)
      return tested.products.split_rows(key.rows(), c.keys, c.features, keys.data());
    for (std::size_t j = 0; j < c.keys; ++j)
      for (std::size_t i = 0; i < lines; ++i) {
        const auto number = [&](std::size_t x) { return x < c.features ? key.at(j, x) : 0; };
        keys[j * lines + i] = pair_of(number(2 * i), number(2 * i + 1));
      }
  }

  heed::RowsView<float> view() const { return {keys.data(), static_cast<std::ptrdiff_t>(lines)}; }
  Buffer scores(const heed::KeyRanges& ranges) const {
    Buffer scores(round_up(c.keys, kPadding) * c.pitch);
    tested.products.scores(c.vectors, view(), ranges, panel.data(), c.features, scores.data());
    CHECK((scores.intact() && panel.intact() && keys.intact()));
    return scores;
  }
  /// The score of key j and row r times `scale`.
  double ratio(float got, std::size_t j, std::size_t r, double scale) const {
    Terms want;
    for (std::size_t x = 0; r < rows_present && x < c.features; ++x)
      want.add(static_cast<double>(rows.at(r, x)) * scale, static_cast<double>(key.at(j, x)));
    want.count = static_cast<double>(c.features);
    return tested.ratio(got, want, terms_of<double>(tested.parts), c.features,
                        4 * (want.count + 1));
  }

  const Tested& tested;
  Case c;
  std::size_t rows_present;
  Matrix<float> rows, key;
  std::size_t lines;  ///< elements of features
  Buffer keys, panel;
};

/// Weights and values, and what they are added to.
struct Values {
  Values(const Tested& of, const Case& whole, Random& random)
      : tested(of),
        c(whole),
        value(c.keys, c.features, c.unit),
        weights(filled<float>(c.keys * c.pitch, [&] { return static_cast<float>(random.unit()); })),
        packed(of.elements_of(c.keys) * round_up(c.features, kBlock)),
        sums(normals<float>(round_up(c.features, kPadding) * c.pitch, random)),
        row_sum(filled<float>(c.pitch, [&] { return static_cast<float>(random.unit()); })),
        sums_before(sums),
        row_sum_before(row_sum) {
    of.draw(value, c.keys, c.features, random);
    of.products.pack_values(value.view(), c.keys, c.features, packed.data());
  }

  void run(const heed::KeyRanges& keys, bool fresh) {
    tested.products.accumulate(c.vectors, view(), keys, heed::PanelGeometry::run, weights.data(),
                               {nullptr, row_sum.data(), sums.data(), fresh}, c.features);
  }
  heed::ValueView<float> view() const {
    const std::int64_t elements = tested.products.elements();
    return {packed.data(), static_cast<std::ptrdiff_t>(kBlock) * elements, elements,
            static_cast<std::ptrdiff_t>(tested.elements_of(c.keys) * kBlock)};
  }
  bool intact() const {
    return weights.intact() && packed.intact() && sums.intact() && row_sum.intact();
  }
  /// The worst of all sums, from what was there or from 0, of weight(j, r) times values.
  template <class Weight>
  double worst(bool fresh, double terms, Weight&& weight) const {
    return worst_of(c.features, c.pitch, [&](std::size_t x, std::size_t r) {
      Terms want{fresh ? 0 : static_cast<double>(sums_before[x * c.pitch + r])};
      for (std::size_t j = 0; j < c.keys; ++j)
        if (const double w = weight(j, r); !std::isnan(w))
          want.add(w, static_cast<double>(value.at(j, x)));
      return tested.ratio(sums[x * c.pitch + r], want, terms, c.keys, want.count + 3);
    });
  }

  const Tested& tested;
  Case c;
  Matrix<float> value;
  Buffer weights, packed, sums, row_sum;
  const Buffer sums_before, row_sum_before;
};

constexpr double kLeftOut = std::numeric_limits<double>::quiet_NaN();  // a weight

}  // namespace

TEST_CASE("pairs and parts: scores are scaled products of queries and keys", "[pairs]") {
  for_each_products([](const auto& kernels, const Tested& tested, const Case& c, Random& random) {
    const auto scale = random.pick<float>({1.0F, 0.18033688F, -3.7F, 1e-5F});
    const Queries q(tested, c, random, scale, random.pick(row_counts(c)));
    const heed::KeyRanges ranges = draw_ranges(c.keys, c.vectors, random);
    const Buffer every = q.scores(heed::all_keys(c.keys));
    const Buffer some = q.scores(ranges);
    CHECK(all(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
      const std::size_t at = j * c.pitch + r;
      return !needs(ranges, r / kernels.panels.lanes, j) || same_bits(some[at], every[at]);
    }));
    return worst_of(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
      return q.ratio(every[j * c.pitch + r], j, r, static_cast<double>(scale));
    });
  });
}

TEST_CASE("pairs and parts: accumulate rounds weights of pairs, and sums what it rounded",
          "[pairs]") {
  for (const bool fresh : {true, false})
    for_each_products(
        [&](const auto& kernels, const Tested& tested, const Case& c, Random& random) {
          Values v(tested, c, random);
          const heed::KeyRanges ranges =
              c.seed % 2 == 0 ? heed::all_keys(c.keys) : draw_ranges(c.keys, c.vectors, random);
          v.run(ranges, fresh);
          CHECK(v.intact());
          const auto weight = [&](std::size_t j, std::size_t r) {
            const bool needed = needs(ranges, r / kernels.panels.lanes, j);
            return needed ? tested.weight(v.weights[j * c.pitch + r]) : kLeftOut;
          };
          const double sums = v.worst(fresh, weighted_terms_of<double>(tested.parts), weight);
          return std::max(sums, worst_of(1, c.pitch, [&](std::size_t, std::size_t r) {
                            Terms want{static_cast<double>(v.row_sum_before[r])};
                            for (std::size_t j = 0; j < c.keys; ++j)
                              if (const double w = weight(j, r); !std::isnan(w)) want.add(w, 1);
                            return tested.ratio_of_weights(v.row_sum[r], want, c.keys);
                          }));
        });
}

TEST_CASE("pairs and parts: a panel is multiplied with a matrix", "[pairs]") {
  for (const bool fresh : {true, false})
    for_each_products([&](const auto&, const Tested& tested, const Case& c, Random& random) {
      Values v(tested, c, random);
      Matrix<float> left(c.pitch, c.keys, true);
      std::vector<const float*> rows;
      for (std::size_t r = 0; r < c.pitch; ++r) {
        for (std::size_t j = 0; j < c.keys; ++j) left.at(r, j) = tested.number(random);
        rows.push_back(left.row(r));
      }
      Buffer panel((tested.elements_of(c.keys) + 1) * c.pitch);
      tested.products.pack_query(c.vectors, rows.data(), c.pitch, left.column_stride(), c.keys, 1,
                                 panel.data());
      tested.products.multiply_panel(c.vectors, v.view(), c.keys, panel.data(), v.sums.data(),
                                     c.features, fresh);
      CHECK((v.intact() && panel.intact()));
      return v.worst(fresh, terms_of<double>(tested.parts), [&](std::size_t j, std::size_t r) {
        return static_cast<double>(left.at(r, j));
      });
    });
}

TEST_CASE("pairs: softmax leaves row_sum to accumulate", "[pairs]") {
  for_each_pairs(
      tiles(11), [](const auto& kernels, const Tested& pairs, const Case& c, Random& random) {
        const auto scores = filled<float>(c.keys * c.pitch, [&] { return 20 * random.normal(); });
        const auto run = [&](const Products& products, Buffer& probs, Buffer& row_max,
                             Buffer& row_sum) {
          Buffer accumulators(round_up(c.features, kPadding) * c.pitch);
          products.softmax(c.vectors, probs.data(), heed::all_keys(c.keys), 0,
                           {row_max.data(), row_sum.data(), accumulators.data(), true}, c.features);
        };
        Buffer probs[2] = {scores, scores};
        const auto none = filled<float>(c.pitch, [] { return heed::kNoRowMax<float>; });
        Buffer row_max[2] = {none, none};
        const auto zeros = filled<float>(c.pitch, [] { return 0.0F; });
        Buffer row_sum[2] = {zeros, zeros};
        run(pairs.products, probs[0], row_max[0], row_sum[0]);
        run(kernels.panels, probs[1], row_max[1], row_sum[1]);
        CHECK((same_bits(probs[0], probs[1]) && same_bits(row_max[0], row_max[1])));
        CHECK(same_bits(row_sum[0], zeros));
        return 0.0;
      });
}

TEST_CASE("pairs: qk_softmax is scores and softmax", "[pairs]") {
  for_each_pairs(sizes(), [](const auto&, const Tested& pairs, const Case& c, Random& random) {
    if (c.keys % kPadding != 0) return 0.0;
    const Queries q(pairs, c, random, 0.3F, c.pitch);
    const std::size_t rows = c.keys * c.pitch;
    const Buffer scores = q.scores(heed::all_keys(c.keys));
    // A reference above all scores, which nothing outgrows: every weight is then known.
    auto row_max = filled<float>(c.pitch, [] { return 0.0F; });
    for (std::size_t i = 0; i < rows; ++i)
      row_max[i % c.pitch] = std::max(row_max[i % c.pitch], scores[i]);
    const Buffer before = row_max;
    auto row_sum = filled<float>(c.pitch, [] { return 0.5F; });
    Buffer probs(rows);
    Buffer unused(c.pitch);
    pairs.products.qk_softmax(c.vectors, q.view(), c.keys, q.panel.data(), c.features, probs.data(),
                              0, {row_max.data(), row_sum.data(), unused.data(), true}, 0);
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
  for_each_pairs({{1, 2, 2, true, 1}},
                 [](const auto&, const Tested& pairs, const Case& c, Random& random) {
                   Queries q(pairs, c, random, 1, 1);
                   q.keys[0] = pair_of(real_of<float>(0x00400000U), 0);  // 2^-127
                   q.keys[q.lines] = pair_of(rounded(1), 0);
                   const Buffer scores = q.scores(heed::all_keys(2));
                   CHECK(scores[0] == 0);
                   CHECK(scores[c.pitch] == q.rows.at(0, 0));
                   Values v(pairs, c, random);
                   v.weights[0] = real_of<float>(0x00400000U);
                   v.weights[c.pitch] = 1;
                   v.run(heed::all_keys(2), true);
                   CHECK(v.sums[0] == v.value.at(1, 0));
                   CHECK(v.row_sum[0] == v.row_sum_before[0] + 1);
                   return 0.0;
                 });
}

TEST_CASE("pairs: rows are rounded, and 0 past their columns", "[pairs]") {
  for (const std::size_t columns : {1U, 7U, 16U, 23U, 31U, 48U})
    for_each_pairs({{1, 1, 5, true, 1}}, [=](const auto&, const Tested& pairs, const Case& c,
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
