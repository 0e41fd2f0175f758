// Products of floats as parts of bfloat16, against sums in a wider type.
#include <cstring>

#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

constexpr std::size_t kBlock = heed::PanelGeometry::value_block;

using Products = heed::ProductKernels<float>;

/// Products, and what is known about them.
struct Tested {
  const Products& products;
  Parts parts;

  /// A number of which they multiply all: a float, or a float16 or bfloat16 in its place.
  float number(Random& random) const {
    const float x = random.normal();
    if (!parts.exact) return x;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    bits &= parts.count == 1 ? 0xffff0000U : 0xffffe000U;
    float kept = 0;
    std::memcpy(&kept, &bits, sizeof bits);
    return kept;
  }
};

/// Calls function(kernels, tested, case, generator) for all of them.
template <class Function>
void for_each_parts(Function&& function) {
  for (const Table<float>* const kernels : usable_isas()) {
    const heed::PartKernels<float>& of = kernels->by_parts;
    if (of.three == nullptr) continue;
    for (const Tested& tested :
         {Tested{*of.three, {3}}, Tested{*of.two, {2}}, Tested{*of.exact_two, {2, true}},
          Tested{*of.exact_one, {1, true}}})
      check_cases(*kernels, sizes(), [&](const Table<float>& table, const Case& c, Random& random) {
        tested.products.begin();
        const double ratio = function(table, tested, c, random);
        tested.products.end();
        return ratio;
      });
  }
}

/// Keys as scores() wants them.
void lay_out(const Products& products, const Matrix<float>& key, const Case& c, float* to) {
  if (products.split_rows != nullptr)
    return products.split_rows(key.rows(), c.keys, c.features, to);
  const std::size_t width = (c.features + products.depth - 1) / products.depth * products.depth;
  std::vector<std::uint16_t> row(width);
  for (std::size_t j = 0; j < c.keys; ++j) {
    for (std::size_t x = 0; x < c.features; ++x) {
      const float number = key.at(j, x);
      std::memcpy(&row[x], reinterpret_cast<const char*>(&number) + 2, 2);
    }
    std::memcpy(to + j * width / 2, row.data(), 2 * width);
  }
}

std::size_t elements_of(const Products& products, std::size_t numbers) {
  return (numbers + products.depth - 1) / products.depth *
         static_cast<std::size_t>(products.elements());
}

/// Packed values of so many keys.
heed::ValueView<float> view_of(const Products& products, const Buffer& packed, std::size_t keys) {
  const std::int64_t elements = products.elements();
  return {packed.data(), static_cast<std::ptrdiff_t>(kBlock) * elements, elements,
          static_cast<std::ptrdiff_t>(elements_of(products, keys) * kBlock)};
}

/// A sum of so many products, each of so many terms, of this magnitude, and of so much that
/// flushing moves.
double ratio_of(Parts parts, double got, double sum, double magnitude, double terms,
                double flushed) {
  const double relative = gamma_of(terms + 2) + left_out<double>(parts);
  return error_ratio(static_cast<float>(got), sum,
                     relative * magnitude + 2 * flushes_of<double>(parts) * kSmallestOf<float> *
                                                (terms + 1 + flushed));
}

}  // namespace

TEST_CASE("parts: scores are scaled products of queries and keys", "[pairs]") {
  for_each_parts([](const auto&, const Tested& tested, const Case& c, Random& random) {
    const Products& products = tested.products;
    const auto scale = random.pick<float>({1.0F, 0.18033688F, -3.7F});
    const std::size_t width = elements_of(products, c.features);
    Matrix<float> query(c.pitch - 1, c.features, c.unit);
    Matrix<float> key(c.keys, c.features, c.unit, 1);
    std::vector<const float*> rows;
    for (std::size_t r = 0; r + 1 < c.pitch; ++r) {
      for (std::size_t x = 0; x < c.features; ++x) query.at(r, x) = tested.number(random);
      rows.push_back(query.row(r));
    }
    for (std::size_t j = 0; j < c.keys; ++j)
      for (std::size_t x = 0; x < c.features; ++x) key.at(j, x) = tested.number(random);
    Buffer panel((width + 1) * c.pitch);
    Buffer split(c.keys * width);
    Buffer scores(round_up(c.keys, heed::PanelGeometry::row_padding) * c.pitch);
    products.pack_query(c.vectors, rows.data(), rows.size(), query.column_stride(), c.features,
                        scale, panel.data());
    lay_out(products, key, c, split.data());
    products.scores(c.vectors, {split.data(), static_cast<std::ptrdiff_t>(width)},
                    heed::all_keys(c.keys), panel.data(), c.features, scores.data());
    CHECK((panel.intact() && split.intact() && scores.intact()));
    return worst_of(c.keys, c.pitch, [&](std::size_t j, std::size_t r) {
      double sum = 0;
      double magnitude = 0;
      double flushed = 0;
      for (std::size_t x = 0; r + 1 < c.pitch && x < c.features; ++x) {
        const double q = static_cast<double>(query.at(r, x)) * static_cast<double>(scale);
        const auto k = static_cast<double>(key.at(j, x));
        sum += q * k;
        magnitude += std::fabs(q * k);
        flushed += std::fabs(q) + std::fabs(k);
      }
      return ratio_of(tested.parts, static_cast<double>(scores[j * c.pitch + r]), sum, magnitude,
                      terms_of<double>(tested.parts) * static_cast<double>(c.features), flushed);
    });
  });
}

TEST_CASE("parts: accumulate adds values times weights", "[pairs]") {
  for_each_parts([](const auto& kernels, const Tested& tested, const Case& c, Random& random) {
    const Products& products = tested.products;
    Matrix<float> value(c.keys, c.features, c.unit);
    for (std::size_t j = 0; j < c.keys; ++j)
      for (std::size_t x = 0; x < c.features; ++x) value.at(j, x) = tested.number(random);
    const auto weights =
        filled<float>(c.keys * c.pitch, [&] { return static_cast<float>(random.unit()); });
    Buffer packed(elements_of(products, c.keys) * round_up(c.features, kBlock));
    Buffer sums =
        normals<float>(round_up(c.features, heed::PanelGeometry::row_padding) * c.pitch, random);
    const Buffer before = sums;
    Buffer row_sums = filled<float>(c.pitch, [] { return 1.0F; });
    const heed::KeyRanges ranges = draw_ranges(c.keys, c.vectors, random);
    products.pack_values(value.view(), c.keys, c.features, packed.data());
    products.accumulate(c.vectors, view_of(products, packed, c.keys), ranges,
                        heed::PanelGeometry::run, weights.data(),
                        {nullptr, row_sums.data(), sums.data(), false}, c.features);
    CHECK((packed.intact() && sums.intact() && row_sums.intact()));
    // What a row's weights add up to is not rounded to parts.
    const double of_sums = worst_of(1, c.pitch, [&](std::size_t, std::size_t r) {
      double sum = 1;
      for (std::size_t j = 0; j < c.keys; ++j)
        if (needs(ranges, r / kernels.panels.lanes, j))
          sum += static_cast<double>(weights[j * c.pitch + r]);
      const double allowed = gamma_of<float>(static_cast<double>(c.keys + 1)) * sum;
      return std::fabs(static_cast<double>(row_sums[r]) - sum) / allowed;
    });
    const double of_values = worst_of(c.features, c.pitch, [&](std::size_t x, std::size_t r) {
      auto sum = static_cast<double>(before[x * c.pitch + r]);
      double magnitude = std::fabs(sum);
      double flushed = 0;
      for (std::size_t j = 0; j < c.keys; ++j) {
        if (!needs(ranges, r / kernels.panels.lanes, j)) continue;
        const auto v = static_cast<double>(value.at(j, x));
        const auto w = static_cast<double>(weights[j * c.pitch + r]);
        sum += w * v;
        magnitude += std::fabs(w * v);
        flushed += std::fabs(v) + w;
      }
      return ratio_of(tested.parts, static_cast<double>(sums[x * c.pitch + r]), sum, magnitude,
                      weighted_terms_of<double>(tested.parts) * static_cast<double>(c.keys),
                      flushed);
    });
    return std::max(of_sums, of_values);
  });
}

TEST_CASE("parts: a panel is multiplied with a matrix", "[pairs]") {
  for (const bool fresh : {true, false})
    for_each_parts([&](const auto&, const Tested& tested, const Case& c, Random& random) {
      const Products& products = tested.products;
      Matrix<float> value(c.keys, c.features, c.unit);
      for (std::size_t j = 0; j < c.keys; ++j)
        for (std::size_t x = 0; x < c.features; ++x) value.at(j, x) = tested.number(random);
      Matrix<float> left(c.pitch, c.keys, true);
      std::vector<const float*> rows;
      for (std::size_t r = 0; r < c.pitch; ++r) {
        for (std::size_t j = 0; j < c.keys; ++j) left.at(r, j) = tested.number(random);
        rows.push_back(left.row(r));
      }
      Buffer panel((elements_of(products, c.keys) + 1) * c.pitch);
      Buffer packed(elements_of(products, c.keys) * round_up(c.features, kBlock));
      Buffer sums =
          normals<float>(round_up(c.features, heed::PanelGeometry::row_padding) * c.pitch, random);
      const Buffer before = sums;
      products.pack_query(c.vectors, rows.data(), c.pitch, left.column_stride(), c.keys, 1,
                          panel.data());
      products.pack_values(value.view(), c.keys, c.features, packed.data());
      products.multiply_panel(c.vectors, view_of(products, packed, c.keys), c.keys, panel.data(),
                              sums.data(), c.features, fresh);
      CHECK((panel.intact() && packed.intact() && sums.intact()));
      return worst_of(c.features, c.pitch, [&](std::size_t x, std::size_t r) {
        double sum = fresh ? 0 : static_cast<double>(before[x * c.pitch + r]);
        double magnitude = std::fabs(sum);
        double flushed = 0;
        for (std::size_t j = 0; j < c.keys; ++j) {
          const auto v = static_cast<double>(value.at(j, x));
          const auto w = static_cast<double>(left.at(r, j));
          sum += w * v;
          magnitude += std::fabs(w * v);
          flushed += std::fabs(v) + std::fabs(w);
        }
        return ratio_of(tested.parts, static_cast<double>(sums[x * c.pitch + r]), sum, magnitude,
                        terms_of<double>(tested.parts) * static_cast<double>(c.keys), flushed);
      });
    });
}
