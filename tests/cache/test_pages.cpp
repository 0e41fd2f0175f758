// How many pages a cache uses, and how many several sequences share.
#include "tests/cache/held.hpp"
#include "tests/dense/kinds.hpp"

using namespace heed_test;

TEST_CASE("a fork takes no page until somebody writes into one that is shared", "[cache]") {
  heed_cache_desc desc = HEED_CACHE_DESC_INIT;
  desc.dtype = HEED_DTYPE_F32;
  desc.layers = 2;
  desc.key_heads = 1;
  desc.features = desc.value_features = 3;
  desc.page_rows = 16;
  desc.pages = 8;
  Held held(plain_contexts()[0], desc);
  Random random(1);
  const auto check = [&](Index used, Index shared) {
    const heed_cache_info info = describe(held.cache);
    CHECK(info.pages_used == used);
    CHECK(info.pages_shared == shared);
  };
  held.create();
  check(0, 0);
  REQUIRE(held.append(0, 0, 40, random));
  check(3, 0);
  REQUIRE(held.append(0, 1, 40, random));
  check(3, 0);
  held.fork(0);
  check(3, 3);
  REQUIRE(held.append(0, 0, 0, random));
  check(3, 3);
  REQUIRE(held.append(0, 0, 1, random));  // copies the last page
  check(4, 2);
  REQUIRE(held.append(0, 1, 1, random));
  REQUIRE(held.append(1, 0, 8, random));  // nobody shares it any more
  check(4, 2);
  REQUIRE(held.append(1, 0, 1, random));
  check(5, 2);
  held.truncate(0, 32);  // to the end of what is shared
  check(4, 2);
  REQUIRE(held.append(0, 0, 1, random));  // which is full
  check(5, 2);
  held.truncate(0, 31);
  check(4, 2);
  REQUIRE(held.append(0, 1, 1, random));
  check(5, 1);
  held.free(0);
  check(4, 0);
  held.free(0);
  check(0, 0);
}
