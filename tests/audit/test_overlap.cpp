// Which tensors overlap, against a list of all their bytes.
#include <set>

#include "engine/audit/audit.hpp"
#include "tests/catch.hpp"
#include "tests/support/random.hpp"
#include "tests/support/size.hpp"

using heed_test::Random;

namespace {

char memory[1 << 16];

/// Up to four axes, of strides that nest, repeat, step backwards or make no sense at all.
heed::GivenTensor draw(Random& random) {
  heed::GivenTensor drawn{};
  drawn.layout.bytes = random.pick<std::int64_t>({1, 2, 4, 8});
  std::int64_t* const strides[] = {&drawn.layout.strides.batch, &drawn.layout.strides.head,
                                   &drawn.layout.strides.row, &drawn.layout.strides.feature};
  std::int64_t step = random.pick<std::int64_t>({1, 1, 2, 3});
  for (int axis = 3; axis >= 0; --axis) {
    drawn.sizes[axis] = random.pick<std::int64_t>({1, 1, 2, 3, 5, 8});
    const bool nested = random.bits() % 4 != 0;
    *strides[axis] = nested ? step : random.pick<std::int64_t>({0, 1, 3, 7, 12, 40});
    if (random.bits() % 8 == 0) *strides[axis] = -*strides[axis];
    step = step * drawn.sizes[axis] + random.pick<std::int64_t>({0, 0, 1, 4});
  }
  drawn.data = memory + sizeof memory / 2 +
               static_cast<std::int64_t>(random.bits() % 256) * drawn.layout.bytes;
  return drawn;
}

std::set<const char*> bytes_of(const heed::GivenTensor& tensor) {
  std::set<const char*> bytes;
  const heed::Strides& s = tensor.layout.strides;
  for (std::int64_t b = 0; b < tensor.sizes[0]; ++b)
    for (std::int64_t h = 0; h < tensor.sizes[1]; ++h)
      for (std::int64_t i = 0; i < tensor.sizes[2]; ++i)
        for (std::int64_t x = 0; x < tensor.sizes[3]; ++x)
          for (std::int64_t byte = 0; byte < tensor.layout.bytes; ++byte)
            bytes.insert(static_cast<const char*>(tensor.data) +
                         (b * s.batch + h * s.head + i * s.row + x * s.feature) *
                             tensor.layout.bytes +
                         byte);
  return bytes;
}

}  // namespace

TEST_CASE("tensors overlap if and only if they share a byte", "[check]") {
  Random random(11);
  int overlapping = 0;
  int apart_in_each_other = 0;
  const std::size_t rounds = heed_test::count(4000);
  for (std::size_t round = 0; round < rounds; ++round) {
    const heed::GivenTensor a = draw(random);
    const heed::GivenTensor b = draw(random);
    const std::set<const char*> of_a = bytes_of(a);
    const std::set<const char*> of_b = bytes_of(b);
    bool want = false;
    for (const char* const byte : of_b) want = want || of_a.count(byte) > 0;
    CAPTURE(round);
    REQUIRE(heed::overlap(a, b) == want);
    REQUIRE(heed::overlap(b, a) == want);
    overlapping += want ? 1 : 0;
    const bool within = *of_a.begin() < *of_b.rbegin() && *of_b.begin() < *of_a.rbegin();
    apart_in_each_other += within && !want ? 1 : 0;
  }
  CHECK(static_cast<std::size_t>(overlapping) > rounds / 200);
  CHECK(static_cast<std::size_t>(apart_in_each_other) > rounds / 200);
}

TEST_CASE("tensors of billions of elements take no time", "[check]") {
  const std::int64_t many = std::int64_t{1} << 31;
  const heed::Layout even = {heed::ElementType::kF32, 4, {0, 0, 2, 0}};
  heed::GivenTensor all[3] = {};
  const int places[3] = {0, 4, 6};
  for (int i = 0; i < 3; ++i) {
    all[i].data = memory + places[i];
    all[i].layout = even;
    for (const int axis : {0, 1, 3}) all[i].sizes[axis] = 1;
    all[i].sizes[2] = many;
  }
  CHECK_FALSE(heed::overlap(all[0], all[1]));
  CHECK(heed::overlap(all[0], all[2]));
  CHECK(heed::overlap(all[1], all[2]));
}
