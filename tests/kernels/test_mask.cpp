// mask: -inf from each row's limit on, everything else as it was.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// Limits of every kind: none, all, past the end, and each number between.
float limit_of(std::size_t row, std::size_t keys, Random& random) {
  if (row % 5 == 0) return 0;
  if (row % 5 == 1) return static_cast<float>(keys);
  if (row % 5 == 2) return static_cast<float>(keys + 100);
  return static_cast<float>(random.integer(0, static_cast<std::int64_t>(keys)));
}

/// NaN and infinities must be masked like any number.
float score_of(Random& random) {
  const std::int64_t kind = random.integer(0, 9);
  return kind == 0 ? float_of(0x7fc00001U) : kind == 1 ? kInf : kind == 2 ? -kInf : random.normal();
}

}  // namespace

TEST_CASE("mask excludes the keys from each row's limit on", "[mask]") {
  for_each_isa([](const heed::KernelTable& kernels) {
    sweep([&](const Case& c, Random& random) {
      const std::size_t pitch = c.vectors * kernels.lanes;
      Buffer scores(c.keys * pitch);
      scores.fill([&] { return score_of(random); });
      const Buffer before = scores;
      Buffer limit(pitch);
      for (std::size_t r = 0; r < pitch; ++r) limit[r] = limit_of(r, c.keys, random);
      kernels.mask(scores.data(), c.keys, limit.data(), c.vectors);
      bool equal = true;
      for (std::size_t j = 0; j < c.keys; ++j)
        for (std::size_t r = 0; r < pitch; ++r) {
          const std::size_t at = j * pitch + r;
          const float want = static_cast<float>(j) < limit[r] ? before[at] : -kInf;
          equal = equal && same_bits(scores[at], want);
        }
      CHECK(equal);
      CHECK((scores.intact() && limit.intact()));
    });
  });
}
