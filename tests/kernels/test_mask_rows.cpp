// mask_rows: -inf where a row's byte is 0, everything else as it was, and no byte read past its
// end.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// Rows of bytes, each with memory of its own that ends where it does. Most bytes are 0, 1 or 255,
/// some have a single bit set.
std::vector<std::vector<std::uint8_t>> rows_of(std::size_t count, std::size_t keys,
                                               Random& random) {
  std::vector<std::vector<std::uint8_t>> rows(count, std::vector<std::uint8_t>(keys));
  for (auto& row : rows) {
    for (std::uint8_t& byte : row) {
      const std::int64_t kind = random.integer(0, 5);
      byte = kind < 3    ? std::uint8_t{0}
             : kind == 3 ? std::uint8_t{1}
             : kind == 4 ? std::uint8_t{255}
                         : static_cast<std::uint8_t>(1U << random.integer(0, 7));
    }
  }
  return rows;
}

}  // namespace

TEMPLATE_TEST_CASE("mask_rows excludes a key where the row's byte is 0", "[mask_rows]", float,
                   double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep([&](const Case& c, Random& random) {
      const std::size_t pitch = c.vectors * kernels.panels.lanes;
      const auto count =
          static_cast<std::size_t>(random.integer(1, static_cast<std::int64_t>(pitch)));
      const auto bytes = rows_of(count, c.keys, random);
      std::vector<const std::uint8_t*> rows;
      for (const auto& row : bytes) rows.push_back(row.data());
      BasicBuffer<TestType> scores(c.keys * pitch);
      scores.fill([&] {
        return random.integer(0, 9) == 0 ? not_a_number<TestType>() : random.normal<TestType>();
      });
      const BasicBuffer<TestType> before = scores;
      kernels.panels.mask_rows(c.vectors, scores.data(), c.keys, rows.data(), count);
      bool equal = true;
      for (std::size_t j = 0; j < c.keys; ++j)
        for (std::size_t r = 0; r < pitch; ++r) {
          const std::size_t at = j * pitch + r;
          const bool kept = r >= count || bytes[r][j] != 0;
          equal = equal && same_bits(scores[at], kept ? before[at] : -kInf<TestType>);
        }
      CHECK(equal);
      CHECK(scores.intact());
    });
  });
}

TEMPLATE_TEST_CASE("mask_rows tells all bytes apart from 0, each on its own", "[mask_rows]", float,
                   double) {
  constexpr std::size_t kKeys = 128;
  for_each_table<TestType>([&](const Table<TestType>& kernels) {
    bool right = true;
    for (unsigned value = 0; value < 256; ++value)
      for (const unsigned others : {0U, 255U}) {
        std::vector<std::uint8_t> row(kKeys, static_cast<std::uint8_t>(others));
        const std::size_t at = value % kKeys;
        row[at] = static_cast<std::uint8_t>(value);
        const std::vector<const std::uint8_t*> rows(kernels.panels.lanes, row.data());
        BasicBuffer<TestType> scores(kKeys * kernels.panels.lanes);
        scores.fill([] { return TestType{1}; });
        kernels.panels.mask_rows(1, scores.data(), kKeys, rows.data(), kernels.panels.lanes);
        for (std::size_t j = 0; j < kKeys; ++j)
          right = right && (scores[j * kernels.panels.lanes] == 1) == (row[j] != 0);
      }
    CHECK(right);
  });
}
