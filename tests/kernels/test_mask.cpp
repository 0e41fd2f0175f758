// mask: -inf before each row's first key and from its limit on, everything else as it was.
#include "tests/kernels/support.hpp"

using namespace heed_test;

namespace {

/// Bounds of every kind: none, all, before the first key, past the end, and each number between.
template <class Real>
Real bound_of(std::size_t kind, std::size_t keys, Random& random) {
  if (kind % 5 == 0) return 0;
  if (kind % 5 == 1) return static_cast<Real>(keys);
  if (kind % 5 == 2) return static_cast<Real>(keys + 100);
  if (kind % 5 == 3) return -static_cast<Real>(random.integer(1, 1000000));
  return static_cast<Real>(random.integer(0, static_cast<std::int64_t>(keys)));
}

/// NaN and infinities must be masked like any number.
template <class Real>
Real score_of(Random& random) {
  const std::int64_t kind = random.integer(0, 9);
  return kind == 0   ? not_a_number<Real>()
         : kind == 1 ? kInf<Real>
         : kind == 2 ? -kInf<Real>
                     : random.normal<Real>();
}

}  // namespace

TEMPLATE_TEST_CASE("mask excludes the keys before each row's first and from its limit on", "[mask]",
                   float, double) {
  for_each_table<TestType>([](const Table<TestType>& kernels) {
    sweep([&](const Case& c, Random& random) {
      const std::size_t pitch = c.vectors * kernels.panels.lanes;
      BasicBuffer<TestType> scores(c.keys * pitch);
      scores.fill([&] { return score_of<TestType>(random); });
      const BasicBuffer<TestType> before = scores;
      BasicBuffer<TestType> first(pitch);
      BasicBuffer<TestType> limit(pitch);
      for (std::size_t r = 0; r < pitch;
           ++r) {  // every pair of kinds: empty ranges, and whole ones
        first[r] = bound_of<TestType>(c.features + r / 5, c.keys, random);
        limit[r] = bound_of<TestType>(r, c.keys, random);
        if (r % 11 == 10) first[r] = limit[r];
      }
      kernels.panels.mask(c.vectors, scores.data(), c.keys, first.data(), limit.data());
      bool equal = true;
      for (std::size_t j = 0; j < c.keys; ++j)
        for (std::size_t r = 0; r < pitch; ++r) {
          const auto key = static_cast<TestType>(j);
          const std::size_t at = j * pitch + r;
          const bool kept = first[r] <= key && key < limit[r];
          equal = equal && same_bits(scores[at], kept ? before[at] : -kInf<TestType>);
        }
      CHECK(equal);
      CHECK((scores.intact() && first.intact() && limit.intact()));
    });
  });
}
