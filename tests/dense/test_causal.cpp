// Causal masks of every alignment and offset.
#include "tests/dense/kinds.hpp"

using namespace heed_test;

namespace {

/// Not all, so that all pairs stay affordable.
const std::vector<std::int64_t> kLengths = {1, 2, 8, 17, 25, 64, 77, 131, 197};

Sizes causal_by(std::int64_t offset, const Sizes& s) {
  Sizes sizes = s;
  sizes.causal = HEED_CAUSAL_OFFSET;
  sizes.causal_offset = offset;
  return sizes;
}

}  // namespace

TEST_CASE("causal, every pair of lengths", "[causal]") {
  Report report("causal lengths");
  std::size_t index = 0;
  for (const std::int64_t query_length : kLengths)
    for (const std::int64_t key_length : kLengths)
      for (const std::uint32_t causal : {HEED_CAUSAL_TOP_LEFT, HEED_CAUSAL_BOTTOM_RIGHT}) {
        if (!keep(index++)) continue;
        check_filled({query_length, key_length, 20, 24, 1, 1, 1, causal}, index, report);
      }
}

TEST_CASE("causal, every offset", "[causal]") {
  Report report("causal offsets");
  std::size_t index = 0;
  // From a row past the last that could see anything to a key past the last that could be hidden.
  for (const auto& [query_length, key_length] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{7, 19}, {19, 7}, {33, 33}, {1, 5}})
    for (std::int64_t offset = -query_length - 2; offset <= key_length + 2; ++offset)
      if (keep(index++))
        check_filled(causal_by(offset, {query_length, key_length, 8, 16}), index, report);
}

TEST_CASE("causal offsets near panels and steps of keys", "[causal]") {
  Report report("causal edges");
  std::size_t index = 0;
  for (const std::int64_t query_length : {25, 150})
    for (const std::int64_t edge : {-48, -24, -16, -1, 0, 63, 64, 127, 128, 255, 256})
      for (const std::int64_t shift : {-1, 0, 1})
        if (keep(index++))
          check_filled(causal_by(edge + shift, {query_length, 300, 16, 16}), index, report);
}

TEST_CASE("causal with offsets far out of range", "[causal]") {
  Report report("causal far offsets");
  for (const std::int64_t offset : {INT64_MIN, INT64_MIN + 1, -(std::int64_t{1} << 40),
                                    std::int64_t{1} << 40, INT64_MAX - 1, INT64_MAX})
    check_filled(causal_by(offset, {5, 7, 8, 8}), 3, report);
}

TEST_CASE("causal with grouped heads", "[causal]") {
  Report report("causal groups");
  std::uint64_t seed = 1;
  for (const std::uint32_t causal : {HEED_CAUSAL_TOP_LEFT, HEED_CAUSAL_BOTTOM_RIGHT})
    for (const auto& [heads, key_heads] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{8, 2}, {71, 1}, {5, 1}})
      for (const std::int64_t query_length : {1, 19, 40}) {
        if (small() && query_length * heads > 100) continue;
        check_filled({query_length, 33, 16, 20, 2, heads, key_heads, causal}, seed++, report);
      }
}

TEST_CASE("rows that attend nothing are exactly +0", "[causal]") {
  for (const std::int64_t offset : {-1, -13, -39, -40, -50}) {
    Problem problem = filled(causal_by(offset, {40, 30, 8, 12}), 11);
    const std::int64_t empty = std::min<std::int64_t>(-offset, 40) * 12;
    on_every_isa(problem, [&](const Outputs& got) {
      const auto first = got.out.bits.begin();
      CHECK(std::count(first, first + empty, 0U) == empty);
    });
  }
}
