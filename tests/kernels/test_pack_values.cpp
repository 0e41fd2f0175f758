// pack_values: blocks of features, keys one after the other inside, zeros past the last feature.
#include "tests/kernels/support.hpp"

using namespace heed_test;

TEMPLATE_TEST_CASE("pack_values copies values to their blocks", "[pack_values]", float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep([&](const Case& c, Random& random) {
      Matrix<TestType> value(c.keys, c.features, c.unit);
      value.fill(c.keys, random);
      const std::size_t width = round_up(c.features, heed::kValueBlock);
      BasicBuffer<TestType> packed(width * c.keys);
      kernels.pack_values(value.view(), c.keys, c.features, packed.data());
      bool equal = true;
      for (std::size_t x = 0; x < width; ++x)
        for (std::size_t j = 0; j < c.keys; ++j) {
          const std::size_t at =
              (x / heed::kValueBlock * c.keys + j) * heed::kValueBlock + x % heed::kValueBlock;
          const TestType want = x < c.features ? value.at(j, x) : 0;
          equal = equal && same_bits(packed[at], want);
        }
      CHECK(equal);
      CHECK((packed.intact() && value.intact(c.keys * c.features)));
    });
  });
}
