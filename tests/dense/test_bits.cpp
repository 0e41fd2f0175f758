// The bits of a result depend on the inputs and the instruction set, and on nothing else.
#include "tests/support/attention.hpp"

using namespace heed_test;

namespace {

struct Named {
  const char* name;
  Sizes sizes;
};

/// Problems of every kind that is cut up differently.
std::vector<Named> problems() {
  Sizes many = {small() ? 80 : 197, small() ? 160 : 300, 20, 24};
  many.batch = 2;
  many.query_heads = 4;
  many.key_heads = 2;
  Sizes causal = many;
  causal.causal = HEED_CAUSAL_TOP_LEFT;
  Sizes one = {1, 700, 64, 64};
  Sizes grouped = one;
  grouped.query_heads = 71;
  Sizes few = {7, 700, 16, 80};
  Sizes wide = {5, 400, 40, 256};
  Sizes narrow = {3, 700, 8, 72};
  Sizes few_causal = few;
  few_causal.causal = HEED_CAUSAL_BOTTOM_RIGHT;
  return {{"many rows", many}, {"causal", causal},
          {"one row", one},    {"grouped", grouped},
          {"few rows", few},   {"wide values", wide},
          {"narrow", narrow},  {"few rows, causal", few_causal}};
}

void check_same(const Choices& a, const Choices& b) {
  for (const Named& named : problems()) {
    Problem problem(named.sizes);
    problem.fill(17, 2);
    for (const char* const isa : isa_names()) {
      INFO(isa << ", " << named.name << ": tiles " << a.tile_q << " x " << a.tile_kv << " and "
               << b.tile_q << " x " << b.tile_kv << ", executors " << a.executor << " and "
               << b.executor);
      CHECK(same_bits(problem.run(make_context(isa, a)), problem.run(make_context(isa, b))));
    }
  }
}

Choices tiles(std::uint32_t tile_q, std::uint32_t tile_kv) {
  Choices choices;
  choices.tile_q = tile_q;
  choices.tile_kv = tile_kv;
  return choices;
}

}  // namespace

TEST_CASE("tiles do not change the bits", "[bits]") {
  check_same(tiles(0, 0), tiles(1, 1));
  check_same(tiles(0, 0), tiles(1000, 1000));
  if (small()) return;
  check_same(tiles(0, 0), tiles(65536, 65536));
  check_same(tiles(1, 1), tiles(1, 65536));
  check_same(tiles(65536, 1), tiles(48, 200));
}

TEST_CASE("threads and executors do not change the bits", "[bits][threads]") {
  for (std::size_t i = 0; i < heed_executor_count(); ++i) {
    Choices threaded;
    threaded.executor = heed_executor_name(i);
    threaded.threads = 3;
    check_same({}, threaded);
  }
}

TEST_CASE("the same run twice gives the same bits", "[bits]") { check_same({}, {}); }

TEST_CASE("the batch and the key heads around a row do not change its bits", "[bits]") {
  Sizes sizes = {19, 150, 20, 24};
  sizes.batch = 3;
  sizes.query_heads = 4;
  sizes.key_heads = 2;
  Problem all(sizes);
  all.fill(23);
  const Sizes alone = {19, 150, 20, 24, 1, 2, 1};
  for (const char* const isa : isa_names()) {
    const std::vector<float> together = all.run(isa);
    std::vector<float> apart;
    for (std::int64_t b = 0; b < 3; ++b)
      for (std::int64_t g = 0; g < 2; ++g) {
        Problem part(alone);
        part.query.each([&](const Axes& at) {
          part.query.at(at) = all.query.at({b, 2 * g + at[1], at[2], at[3]});
        });
        part.key.each([&](const Axes& at) { part.key.at(at) = all.key.at({b, g, at[2], at[3]}); });
        part.value.each([&](const Axes& at) {
          part.value.at(at) = all.value.at({b, g, at[2], at[3]});
        });
        const std::vector<float> got = part.run(isa);
        apart.insert(apart.end(), got.begin(), got.end());
      }
    INFO(isa);
    CHECK(same_bits(together, apart));
  }
}
