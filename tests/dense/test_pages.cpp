// Keys and values in pages have the bits that they have one after the other.
#include "tests/dense/kinds.hpp"
#include "tests/dense/random_forms.hpp"
#include "tests/support/pages.hpp"
#include "tests/support/sweep.hpp"

using namespace heed_test;

namespace {

/// Whether there was something to see.
bool check_contiguous(Problem& p, std::uint64_t seed) {
  Random random(seed);
  if (p.desc.pages == 0 && p.desc.packed_keys == 0) p = paged(p, random);
  if (p.desc.pages == 0) return false;
  Problem q = contiguous(p);
  return check_same(p, q);
}

}  // namespace

TEST_CASE("keys in pages have the bits of keys one after the other", "[pages][same]") {
  check_drawn<RandomForms>(300, 150, check_contiguous);
  check_drawn<LongForms>(60, 20, check_contiguous);
}
