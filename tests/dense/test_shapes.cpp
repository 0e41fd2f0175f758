// Lengths, features and diagonals around those of vectors, panels and steps of keys, many heads on
// one key head and long sums: random problems hit these too seldom.
#include <cmath>

#include "engine/dense/totals.hpp"
#include "tests/dense/kinds.hpp"

using namespace heed_test;

namespace {

const std::vector<std::int64_t> kLengths = {0,  1,  2,  7,  8,  15,  16, 17,
                                            23, 24, 25, 64, 77, 128, 197};
const std::vector<std::int64_t> kFeatures = {1,  3,  8,  16,  20,  40,  64,
                                             72, 80, 96, 112, 128, 160, 256};

}  // namespace

TEST_CASE("every pair of lengths, of features, and of lengths with a diagonal", "[shapes]") {
  Report report("pairs of lengths");
  std::size_t index = 0;
  for (std::size_t q = 0; q < kLengths.size(); ++q)
    for (std::size_t k = 0; k < kLengths.size(); ++k, ++index) {
      if (!keep(index)) continue;
      const std::size_t features = index % 196;
      Sizes sizes = {kLengths[q], kLengths[k], kFeatures[features / 14], kFeatures[features % 14]};
      check_filled(sizes, index, report);
      sizes.causal = q % 2 == 0 ? HEED_CAUSAL_TOP_LEFT : HEED_CAUSAL_BOTTOM_RIGHT;
      sizes.features = sizes.value_features = 16;
      check_filled(sizes, index, report);
    }
}

TEST_CASE("diagonals about panels and steps of keys", "[shapes]") {
  Report report("diagonals");
  for (const std::int64_t query_length : {25, 150})
    for (const std::int64_t edge : {-48, -24, -16, 0, 64, 128, 256})
      for (const std::int64_t shift : {-1, 0, 1}) {
        if (!keep(static_cast<std::size_t>(edge + 48 + shift + 1))) continue;
        Sizes sizes = {query_length, 300, 16, 16, 1, 1, 1, HEED_CAUSAL_OFFSET, edge + shift};
        check_filled(sizes, 1, report);
      }
}

TEST_CASE("grouped heads share keys and values", "[shapes]") {
  Report report("grouped heads");
  std::uint64_t seed = 1;
  for (const std::int64_t query_length : {1, 3, 17})
    for (const std::int64_t batch : {1, 3}) {
      if (small() && query_length * batch > 3) continue;
      check_filled({query_length, 33, 20, 24, batch, 8, 2}, seed++, report);
      check_filled({query_length, 33, 20, 24, batch, 71, 1}, seed++, report);
      check_filled({query_length, 33, 20, 24, batch, 6, 6}, seed++, report);
      check_filled({query_length, 130, 20, 24, batch, 5, 1}, seed++, report);
    }
}

TEST_CASE("many keys, many rows, few of the other", "[shapes]") {
  Report report("long and narrow");
  const std::int64_t length = small() ? 700 : 5000;
  check_filled({1, length, 64, 64}, 1, report);
  check_filled({3, length, 16, 80}, 2, report);
  check_filled({length, 3, 16, 20}, 3, report);
  check_filled({400, 411, 16, 16}, 4, report);
}

TEST_CASE("sums over so many keys that they are added to totals", "[shapes]") {
  Report report("totals");
  for (const std::int64_t keys : {heed::kFoldKeys, heed::kFoldKeys + 1, 2 * heed::kFoldKeys + 77})
    for (const std::int64_t rows : {1, 9}) {
      if (small() && rows > 1) continue;
      Problem plain = filled({rows, keys, 4, 3}, static_cast<std::uint64_t>(keys + rows));
      plain.want_lse();
      plain.sinks.numbers = {1.5};
      check_problem(plain, &report);

      // Scores rise with the keys: references move, and what the totals hold moves with them.
      Problem rising = plain;
      rising.desc.alignment = HEED_ALIGNMENT_OFFSET;
      rising.desc.alignment_offset = keys;
      rising.slopes.numbers = {0.002};
      rising.sinks.numbers.clear();  // a reference that none would move
      check_problem(rising, &report);

      // What is not finite where nobody attends makes a panel begin again.
      Problem masked = plain;
      Tensor& mask = masked.add_mask({1, 1, 1, keys});
      for (const std::int64_t j : {std::int64_t{5}, keys - 2}) {
        mask.set({0, 0, 0, j}, 0);
        masked.value.set({0, 0, j, 1}, std::nan(""));
      }
      check_problem(masked, &report);
    }
}
