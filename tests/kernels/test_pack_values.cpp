// pack_values: blocks of features, keys one after the other inside, zeros past the last feature.
#include "tests/kernels/support.hpp"

using namespace heed_test;

TEST_CASE("pack_values copies values to their blocks", "[pack_values]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    sweep([&](const Case& c, Random& random) {
      Matrix value(c.keys, c.features, c.unit);
      value.fill(c.keys, random);
      const std::size_t width = round_up(c.features, heed::kValueBlock);
      Buffer packed(width * c.keys);
      kernels.pack_values(value.view(), c.keys, c.features, packed.data());
      bool equal = true;
      for (std::size_t x = 0; x < width; ++x)
        for (std::size_t j = 0; j < c.keys; ++j) {
          const std::size_t at =
              (x / heed::kValueBlock * c.keys + j) * heed::kValueBlock + x % heed::kValueBlock;
          const float want = x < c.features ? value.at(j, x) : 0.0F;
          equal = equal && same_bits(packed[at], want);
        }
      CHECK(equal);
      CHECK((packed.intact() && value.intact(c.keys * c.features)));
    });
  });
}
