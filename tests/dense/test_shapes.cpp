// Every pair of lengths, every pair of feature counts, grouped heads and batches.
#include <cmath>

#include "engine/dense/totals.hpp"
#include "tests/support/attention.hpp"

using namespace heed_test;

namespace {

const std::vector<std::int64_t> kLengths = {0,  1,  2,  7,  8,  15,  16, 17,
                                            23, 24, 25, 64, 77, 128, 197};
const std::vector<std::int64_t> kFeatures = {1,  3,  8,  16,  20,  40,  64,
                                             72, 80, 96, 112, 128, 160, 256};

Sizes with_lengths(std::int64_t query_length, std::int64_t key_length, std::int64_t features,
                   std::int64_t value_features) {
  return {query_length, key_length, features, value_features};
}

void check(const Sizes& sizes, std::uint64_t seed, Report& report) {
  INFO("seed " << seed);
  Problem problem(sizes);
  problem.fill(seed);
  check_problem(problem, &report);
}

Sizes grouped(std::int64_t query_heads, std::int64_t key_heads, std::int64_t query_length,
              std::int64_t key_length, std::int64_t batch) {
  Sizes sizes = {query_length, key_length, 20, 24};
  sizes.batch = batch;
  sizes.query_heads = query_heads;
  sizes.key_heads = key_heads;
  return sizes;
}

}  // namespace

TEST_CASE("every pair of lengths", "[shapes]") {
  Report report("pairs of lengths");
  std::size_t index = 0;
  for (std::size_t q = 0; q < kLengths.size(); ++q)
    for (std::size_t k = 0; k < kLengths.size(); ++k, ++index)
      if (keep(index))
        check(with_lengths(kLengths[q], kLengths[k], kFeatures[(q + k) % 14],
                           kFeatures[(q + 3 * k + 5) % 14]),
              index, report);
}

TEST_CASE("every pair of feature counts", "[shapes]") {
  Report report("pairs of features");
  std::size_t index = 0;
  for (std::size_t d = 0; d < kFeatures.size(); ++d)
    for (std::size_t v = 0; v < kFeatures.size(); ++v, ++index)
      if (keep(index))
        check(with_lengths(kLengths[1 + (d + v) % 11], kLengths[1 + (d + 3 * v) % 14], kFeatures[d],
                           kFeatures[v]),
              index, report);
}

TEST_CASE("grouped heads share keys and values", "[shapes]") {
  Report report("grouped heads");
  std::uint64_t seed = 1;
  for (const std::int64_t query_length : {1, 3, 17})
    for (const std::int64_t batch : {1, 3}) {
      if (small() && query_length * batch > 3) continue;
      check(grouped(8, 2, query_length, 33, batch), seed++, report);
      check(grouped(71, 1, query_length, 33, batch), seed++, report);
      check(grouped(6, 6, query_length, 33, batch), seed++, report);
      check(grouped(5, 1, query_length, 130, batch), seed++, report);
    }
}

TEST_CASE("key_heads and value_features default to query_heads and features", "[shapes]") {
  Sizes sizes = {9, 13, 20, 20};
  sizes.query_heads = sizes.key_heads = 3;
  Problem problem(sizes);
  problem.fill(1);
  for (const char* const isa : isa_names()) {
    INFO(isa);
    const std::vector<float> given = problem.run(isa);
    const heed_attention_desc desc = problem.desc;
    problem.desc.key_heads = 0;
    problem.desc.value_features = 0;
    CHECK(same_bits(problem.run(isa), given));
    problem.desc = desc;
  }
}

TEST_CASE("many keys, many rows, few of the other", "[shapes]") {
  Report report("long and narrow");
  const std::int64_t length = small() ? 700 : 5000;
  check(with_lengths(1, length, 64, 64), 1, report);
  check(with_lengths(3, length, 16, 80), 2, report);
  check(with_lengths(length, 3, 16, 20), 3, report);
  check(with_lengths(400, 411, 16, 16), 4, report);
}

TEST_CASE("sums over so many keys that they are added to totals", "[shapes]") {
  Report report("totals");
  for (const std::int64_t keys : {heed::kFoldKeys, heed::kFoldKeys + 1, 2 * heed::kFoldKeys + 77})
    for (const std::int64_t rows : {1, 9}) {
      if (small() && rows > 1) continue;
      Problem plain(with_lengths(rows, keys, 4, 3));
      plain.fill(static_cast<std::uint64_t>(keys + rows));
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
  for (const double scale : {1.0, -1.0, 0.125, -0.3, 1e-3, 1e-30, 4.0, 1e-300}) {
    Sizes sizes = {19, 70, 20, 24};
    sizes.scale = scale;
    check(sizes, seed++, report);
  }
}
