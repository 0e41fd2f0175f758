// Attention over ranks is attention in one process.
#include <numeric>

#include "tests/mpi/ranks.hpp"

using namespace heed_test;

namespace {

struct Case {
  const char* name;
  Sizes sizes;
  void (*set)(Problem&) = [](Problem&) {};
};

Sizes of_types(Sizes sizes, const Types& types) {
  sizes.types = types;
  return sizes;
}

Sizes causal(Sizes sizes, heed_causal causal, std::int64_t offset = 0) {
  sizes.causal = causal;
  sizes.causal_offset = offset;
  return sizes;
}

void window(Problem& p, std::int64_t left, std::int64_t right) {
  p.desc.window = 1;
  p.desc.window_left = left;
  p.desc.window_right = right;
}

/// Queries, keys, features, value features, batch, query heads, key heads.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"plain", {77, 77, 16, 12, 2, 4, 2}},
      {"other lengths, one head", {23, 197, 7, 9}},
      {"no queries", {0, 23, 8, 8, 1, 2, 2}},
      {"no keys", {23, 0, 8, 8, 1, 2, 2}},
      {"no heads", {23, 23, 8, 8, 1, 0, 0}},
      {"one row", {1, 1, 8, 8, 1, 2, 2}},
      {"causal", causal({77, 77, 16, 16, 1, 8, 4}, HEED_CAUSAL_TOP_LEFT)},
      {"causal, last row sees all", causal({50, 77, 16, 16, 1, 2, 2}, HEED_CAUSAL_BOTTOM_RIGHT)},
      {"causal, rows that see nothing", causal({77, 50, 16, 16, 1, 2, 2}, HEED_CAUSAL_OFFSET, -40)},
      {"causal, and the first key of the next shard",
       causal({77, 77, 16, 16, 1, 2, 2}, HEED_CAUSAL_OFFSET, 1)},
      {"heads for three ranks", {23, 77, 8, 8, 2, 12, 6}},
      {"heads for seven ranks", {23, 77, 8, 8, 1, 7, 7}},
      {"window", {77, 77, 16, 16, 1, 2, 2}, [](Problem& p) { window(p, 9, 5); }},
      {"causal window and slopes", causal({77, 77, 16, 16, 1, 4, 2}, HEED_CAUSAL_TOP_LEFT),
       [](Problem& p) {
         window(p, 20, -1);
         p.slopes.numbers = {0.03, 0.1, 0.5, 0};
       }},
      {"slopes",
       {23, 77, 16, 16, 1, 2, 2},
       [](Problem& p) {
         p.desc.alignment = HEED_ALIGNMENT_OFFSET;
         p.desc.alignment_offset = 30;
         p.slopes.numbers = {0.03, 0.1};
       }},
      {"mask and bias",
       {23, 77, 16, 16, 2, 2, 1},
       [](Problem& p) {
         p.add_mask(p.pairs()).fill([](const Axes& x) {
           return x[2] == 6 ? x[3] == 41 : x[2] != 5 && (x[2] + x[3] / 20) % 3 != 0;
         });
         Random random(9);
         p.add_bias({1, 2, 1, 77}).fill([&] { return random.normal(); });
       }},
      {"a mask of keys, a bias of rows",
       {23, 77, 16, 16, 2, 2, 1},
       [](Problem& p) {
         p.add_mask({2, 1, 1, 77}).fill([](const Axes& x) { return x[3] % 5 != 0; });
         p.add_bias({1, 1, 23, 1}, HEED_DTYPE_BF16).fill([](const Axes& x) { return x[2]; });
       }},
      {"key lengths",
       {23, 77, 16, 16, 3, 2, 2},
       [](Problem& p) {
         p.key_lengths = {77, 0, 30};
       }},
      {"sinks", causal({77, 77, 16, 16, 1, 4, 2}, HEED_CAUSAL_OFFSET, -3),
       [](Problem& p) {
         p.sinks.numbers = {1, 5, -2, 0};
       }},
      {"softcap, temperature and scale",
       {23, 77, 16, 16, 1, 2, 2},
       [](Problem& p) {
         p.desc.softcap = 3;
         p.desc.temperature = 0.5;
         p.desc.scale = 0.7;
       }},
      {"bfloat16",
       of_types(causal({77, 77, 16, 16, 1, 4, 4}, HEED_CAUSAL_TOP_LEFT), all_of(HEED_DTYPE_BF16))},
      {"mixed types", of_types({23, 77, 16, 16, 1, 4, 4},
                               {HEED_DTYPE_F32, HEED_DTYPE_F16, HEED_DTYPE_BF16, HEED_DTYPE_F16})},
      {"float64",
       of_types(causal({77, 77, 16, 16, 1, 4, 2}, HEED_CAUSAL_TOP_LEFT), all_of(HEED_DTYPE_F64)),
       [](Problem& p) {
         p.sinks.numbers = {1, 5, -2, 0};
       }},
  };
  return all;
}

Problem made(const Case& c, std::uint64_t seed) {
  Problem p(c.sizes);
  p.fill(seed);
  c.set(p);
  p.want_lse(seed % 2 == 0 ? HEED_DTYPE_DEFAULT : HEED_DTYPE_F64);
  return p;
}

/// Small sweeps keep every fifth split, of another kind for each problem.
bool keep_of_small(std::size_t index) { return !small() || index % 5 == 0; }

bool heads_may_be_shared(const Problem& p, std::int64_t by) {
  const std::int64_t key_heads = p.key.shape()[1];
  return key_heads > 0 && key_heads % by == 0 && ranks() % by == 0 && !p.mask && !p.bias;
}

}  // namespace

TEST_CASE("every option, split every way, around the ring and over heads") {
  std::uint64_t seed = 0;
  std::size_t index = 0;
  for (const Case& c : cases()) {
    INFO(c.name);
    Problem p = made(c, ++seed);
    const std::int64_t queries = c.sizes.query_length;
    const std::int64_t keys = c.sizes.key_length;
    for (const Split& split :
         {even_split(HEED_MPI_CONTIGUOUS, queries, keys), uneven_split(queries, keys),
          even_split(HEED_MPI_ZIGZAG, queries, keys), dealt_split(queries, keys, seed)}) {
      if (!keep_of_small(index++)) continue;
      const bool one = split.placement == HEED_MPI_CONTIGUOUS && ranks() == 1;
      check_ranks(p, split, 1, one);
      for (std::int64_t by = 2; by <= ranks(); ++by)
        if (heads_may_be_shared(p, by)) check_ranks(p, split, by, by == ranks());
    }
  }
}

TEST_CASE("the plan's own choice") {
  std::size_t index = 0;
  for (const Case& c : cases()) {
    if (!keep_of_small(index++)) continue;
    INFO(c.name);
    Problem p = made(c, 5);
    check_ranks(p, even_split(HEED_MPI_ZIGZAG, c.sizes.query_length, c.sizes.key_length), 0, false);
  }
}

TEST_CASE("queries that all ranks have attend keys that are split") {
  std::uint64_t seed = 100;
  for (const Case& c : cases()) {
    if (!keep_of_small(++seed)) continue;
    INFO(c.name);
    Problem p = made(c, seed);
    check_ranks(p, everywhere(c.sizes.query_length, c.sizes.key_length), 0, ranks() == 1);
  }
}

TEST_CASE("more rows than a slice has") {
  Problem p = made({"", causal({2500, 2500, 8, 8, 1, 1, 1}, HEED_CAUSAL_TOP_LEFT)}, 3);
  check_ranks(p, even_split(HEED_MPI_ZIGZAG, 2500, 2500), 1, false);
}

TEST_CASE("NaN in keys and values that a row may not attend does not reach it") {
  Problem p = made({"", causal({77, 77, 16, 16, 1, 2, 2}, HEED_CAUSAL_TOP_LEFT)}, 4);
  for (Tensor* const tensor : {&p.key, &p.value})
    tensor->set_where([](const Axes& at) { return at[2] >= 70; }, kNaN);
  for (const std::uint32_t placement : {HEED_MPI_CONTIGUOUS, HEED_MPI_ZIGZAG})
    check_ranks(p, even_split(placement, 77, 77), 1, false);
}
