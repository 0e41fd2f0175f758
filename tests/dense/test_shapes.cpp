// Every pair of lengths, every pair of feature counts, grouped heads and batches.
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

TEST_CASE("every pair of lengths", "[shapes]") {
  Report report("pairs of lengths");
  std::size_t index = 0;
  for (std::size_t q = 0; q < kLengths.size(); ++q)
    for (std::size_t k = 0; k < kLengths.size(); ++k, ++index)
      if (keep(index))
        check_filled(
            {kLengths[q], kLengths[k], kFeatures[(q + k) % 14], kFeatures[(q + 3 * k + 5) % 14]},
            index, report);
}

TEST_CASE("every pair of feature counts", "[shapes]") {
  Report report("pairs of features");
  std::size_t index = 0;
  for (std::size_t d = 0; d < kFeatures.size(); ++d)
    for (std::size_t v = 0; v < kFeatures.size(); ++v, ++index)
      if (keep(index))
        check_filled({kLengths[1 + (d + v) % 11], kLengths[1 + (d + 3 * v) % 14], kFeatures[d],
                      kFeatures[v]},
                     index, report);
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

TEST_CASE("key_heads and value_features default to query_heads and features", "[shapes]") {
  Problem given = filled({9, 13, 20, 20, 1, 3, 3}, 1);
  Problem problem = given;
  problem.desc.key_heads = 0;
  problem.desc.value_features = 0;
  CHECK(check_same(problem, given));
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

TEST_CASE("scales of every sign and size", "[shapes]") {
  Report report("scales");
  std::uint64_t seed = 1;
  for (const double scale : {1.0, -1.0, 0.125, -0.3, 1e-3, 1e-30, 4.0, 1e-300})
    check_filled({19, 70, 20, 24, 1, 1, 1, HEED_CAUSAL_NONE, 0, scale}, seed++, report);
}
