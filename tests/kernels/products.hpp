// What multiplies in panels: numbers as they are, pairs of bfloat16, and floats as parts of it,
// with operands of which each multiplies all, so that nothing is rounded but sums, weights and what
// parts leave out. The tests' own packing knows nothing of the kernels' order but what table.hpp
// says of it.
#pragma once

#include "tests/kernels/support.hpp"

namespace heed_test {

inline constexpr std::size_t kBlock = heed::PanelGeometry::value_block;
inline constexpr std::size_t kPadding = heed::PanelGeometry::row_padding;
inline constexpr std::size_t kRun = heed::PanelGeometry::run;

/// The bfloat16 nearest to x, as a float.
inline float rounded(float x) {
  const std::uint32_t bits = bits_of(x);
  return real_of<float>((bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U);
}

/// The two numbers of a pair.
inline float half_of(float pair, std::size_t which) {
  return real_of<float>(which == 0 ? bits_of(pair) << 16 : bits_of(pair) & 0xffff0000U);
}
inline float pair_of(float even, float odd) {
  return real_of<float>(bits_of(even) >> 16 | (bits_of(odd) & 0xffff0000U));
}

/// Products, and what is known about them.
template <class Real>
struct Tested {
  const heed::ProductKernels<Real>& products;
  Parts parts = {};

  bool pairs() const { return products.depth > 1 && parts.count == 0; }
  bool plain() const { return products.depth == 1; }

  /// A number of which they multiply all: a Real, or a bfloat16 in its place.
  Real number(Random& random) const {
    const Real x = random.normal<Real>();
    if constexpr (std::is_same_v<Real, float>)
      if (pairs() || parts.exact) return rounded(x);
    return x;
  }
  void draw(Matrix<Real>& matrix, std::size_t rows, std::size_t columns, Random& random) const {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t x = 0; x < columns; ++x) matrix.at(i, x) = number(random);
  }
  /// As products take it.
  Wide<Real> weight(Real w) const {
    if constexpr (std::is_same_v<Real, float>)
      if (pairs()) return static_cast<double>(rounded(w));
    return w;
  }

  /// Elements of so many numbers.
  std::size_t elements_of(std::size_t numbers) const {
    return (numbers + products.depth - 1) / products.depth *
           static_cast<std::size_t>(products.elements());
  }

  /// Error / bound of a sum in which `products` of `terms` parts' products each may have taken
  /// part, `scalings` factors of which were rounded before.
  ///
  /// Of pairs, a product in a float is exact, each of the sums rounds once, a factor and its
  /// product twice; and each may flush, `flushes` times all in all. BFDOT rounds to odd, which
  /// loses twice as much, but once for the two products of a pair and once for their sum with the
  /// others; a range has half as many pairs as keys, and at most one more.
  double ratio(Real got, const Sum<Real>& want, Wide<Real> terms, std::size_t taking_part,
               Wide<Real> flushes, int scalings = 0) const {
    if (plain()) return want.ratio(got, want.terms + scalings);
    if (pairs())
      return error_ratio<Real>(
          got, want.value,
          gamma_of<Real>(want.terms + 3) * want.magnitude + flushes * kSmallestOf<Real>);
    const Wide<Real> all = terms * static_cast<Wide<Real>>(taking_part);
    const Wide<Real> relative = gamma_of<Real>(all + 2) + left_out<Wide<Real>>(parts);
    return error_ratio<Real>(got, want.value,
                             relative * want.magnitude + 2 * flushes_of<Wide<Real>>(parts) *
                                                             kSmallestOf<Real> *
                                                             (all + 1 + want.factors));
  }
};

/// Calls function(kernels, tested, case, generator) for products of all kinds, or of pairs alone,
/// where an instruction set has them.
template <class Real, class Function>
void check_products(const Table<Real>& kernels, const Tested<Real>& tested,
                    const std::vector<Case>& cases, Function&& function) {
  check_cases(kernels, cases, [&](const Table<Real>& table, const Case& c, Random& random) {
    if (tested.products.begin != nullptr) tested.products.begin();
    const double ratio = function(table, tested, c, random);
    if (tested.products.end != nullptr) tested.products.end();
    return ratio;
  });
}
template <class Function>
void for_each_pairs(const std::vector<Case>& cases, Function&& function) {
  for (const Table<float>* const kernels : usable_isas())
    if (kernels->pairs != nullptr) DYNAMIC_SECTION("pairs, " << kernels->isa) {
        check_products<float>(*kernels, {*kernels->pairs}, cases, function);
      }
}
template <class Real, class Function>
void for_each_products(const std::vector<Case>& cases, Function&& function) {
  for_each_table<Real>([&](const Table<Real>& kernels) {
    check_products<Real>(kernels, {kernels.panels}, cases, function);
  });
  if constexpr (std::is_same_v<Real, float>) {
    for_each_pairs(cases, function);
    for (const Table<float>* const kernels : usable_isas()) {
      const heed::PartKernels<float>& of = kernels->by_parts;
      if (of.two == nullptr) continue;
      DYNAMIC_SECTION("parts, " << kernels->isa) {
        for (const Tested<float>& tested :
             {Tested<float>{*of.two, {2}}, Tested<float>{*of.exact_one, {1, true}}})
          check_products<float>(*kernels, tested, cases, function);
      }
    }
  }
}

/// A panel of queries, of which so many are there, and keys as scores() wants them.
template <class Real>
struct Queries {
  Queries(const Tested<Real>& of, const Case& whole, Random& random, Real factor,
          std::size_t present)
      : tested(of),
        c(whole),
        scale(factor),
        rows(present, c.features, c.unit),
        key(c.keys, c.features, c.unit, 1),
        lines(of.elements_of(c.features)),
        keys(c.keys * lines),
        panel((lines + 1) * c.pitch),
        rows_present(present) {
    of.draw(rows, present, c.features, random);
    of.draw(key, c.keys, c.features, random);
    lay_out();
  }

  /// Again, after they have changed.
  void lay_out() {
    std::vector<const Real*> from;
    for (std::size_t r = 0; r < rows_present; ++r) from.push_back(rows.row(r));
    tested.products.pack_query(c.vectors, from.data(), rows_present, rows.column_stride(),
                               c.features, scale, panel.data());
    if (tested.products.split_rows != nullptr)
      return tested.products.split_rows(key.rows(), c.keys, c.features, keys.data());
    if constexpr (std::is_same_v<Real, float>)
      for (std::size_t j = 0; !tested.plain() && j < c.keys; ++j)
        for (std::size_t i = 0; i < lines; ++i) {
          const auto number = [&](std::size_t x) { return x < c.features ? key.at(j, x) : 0; };
          keys[j * lines + i] = pair_of(number(2 * i), number(2 * i + 1));
        }
  }

  /// From a key on.
  heed::RowsView<Real> view(std::size_t first = 0) const {
    heed::RowsView<Real> from = {keys.data(), static_cast<std::ptrdiff_t>(lines)};
    if (tested.plain()) from = key.rows();
    from.data += static_cast<std::ptrdiff_t>(first) * from.row_stride;
    return from;
  }
  BasicBuffer<Real> scores(const heed::KeyRanges& ranges, std::size_t first = 0) const {
    BasicBuffer<Real> scores(round_up(c.keys, kPadding) * c.pitch);
    tested.products.scores(c.vectors, view(first), ranges, panel.data(), c.features, scores.data());
    CHECK((scores.intact() && panel.intact() && keys.intact()));
    return scores;
  }
  BasicBuffer<Real> scores() const { return scores(heed::all_keys(c.keys)); }

  /// The score of key j and row r, added to what was there.
  Sum<Real> score(std::size_t j, std::size_t r, Real before = 0) const {
    Sum<Real> sum = {before};
    for (std::size_t x = 0; r < rows_present && x < c.features; ++x)
      sum.add(static_cast<Wide<Real>>(rows.at(r, x)) * scale, key.at(j, x));
    return sum;
  }
  double ratio(Real got, std::size_t j, std::size_t r) const {
    return tested.ratio(got, score(j, r), terms_of<Wide<Real>>(tested.parts), c.features,
                        static_cast<Wide<Real>>(4 * (c.features + 1)), 1);
  }

  const Tested<Real>& tested;
  Case c;
  Real scale;
  Matrix<Real> rows, key;
  std::size_t lines;  ///< elements of features
  BasicBuffer<Real> keys, panel;
  std::size_t rows_present;
};

/// Weights and values, and what they are added to.
template <class Real>
struct Values {
  Values(const Tested<Real>& of, const Case& whole, Random& random)
      : tested(of),
        c(whole),
        value(c.keys, round_up(c.features, kPadding), c.unit, of.plain() ? 1 : 0),
        weights(filled<Real>(c.keys * c.pitch, [&] { return static_cast<Real>(random.unit()); })),
        packed(of.elements_of(c.keys) * round_up(c.features, kBlock)),
        before(normals<Real>(round_up(c.features, kPadding) * c.pitch, random)),
        row_sum(filled<Real>(c.pitch, [&] { return static_cast<Real>(random.unit()); })) {
    of.draw(value, c.keys, round_up(c.features, kPadding), random);
    of.products.pack_values(value.view(), c.keys, c.features, packed.data());
  }

  /// Blocks, of keys from one on.
  heed::ValueView<Real> view(std::size_t first = 0) const {
    const std::int64_t elements = tested.products.elements();
    return {packed.data() + first * kBlock, static_cast<std::ptrdiff_t>(kBlock) * elements,
            elements, static_cast<std::ptrdiff_t>(tested.elements_of(c.keys) * kBlock)};
  }
  /// In whole groups, as they are read where they lie.
  heed::ValueView<Real> in_place() const {
    return {value.rows().data, value.rows().row_stride, 1, kBlock};
  }

  BasicBuffer<Real> start(bool fresh) const {
    return fresh ? BasicBuffer<Real>(before.size()) : before;  // fresh: canaries, never read
  }
  BasicBuffer<Real> accumulate(const heed::ValueView<Real>& values, bool fresh,
                               const heed::KeyRanges& keys, BasicBuffer<Real>& sum) const {
    auto sums = start(fresh);
    tested.products.accumulate(c.vectors, values, keys, kRun, weights.data(),
                               {nullptr, sum.data(), sums.data(), fresh}, c.features);
    CHECK((weights.intact() && packed.intact() && sums.intact() && sum.intact()));
    return sums;
  }
  bool same(const BasicBuffer<Real>& a, const BasicBuffer<Real>& b) const {
    return same_bits(a, b, c.features * c.pitch);
  }
  /// The worst of all sums, from what was there or from 0, of weight(j, r) times values.
  template <class Weight>
  double worst(const BasicBuffer<Real>& sums, bool fresh, Wide<Real> terms, Weight&& weight) const {
    return worst_of(c.features, c.pitch, [&](std::size_t x, std::size_t r) {
      Sum<Real> want{fresh ? Real{0} : before[x * c.pitch + r]};
      for (std::size_t j = 0; j < c.keys; ++j)
        if (const Wide<Real> w = weight(j, r); !std::isnan(w)) want.add(w, value.at(j, x));
      return tested.ratio(sums[x * c.pitch + r], want, terms, c.keys, want.terms + 3);
    });
  }

  const Tested<Real>& tested;
  Case c;
  Matrix<Real> value;
  BasicBuffer<Real> weights, packed, before, row_sum;
};

}  // namespace heed_test
