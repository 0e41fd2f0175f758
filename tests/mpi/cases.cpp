#include "tests/mpi/cases.hpp"

namespace heed_test {
namespace {

Sizes of_types(Sizes sizes, const Types& types) {
  sizes.types = types;
  return sizes;
}

/// Sequences that begin at these rows, and the end of the last.
Sizes packed(Sizes sizes, const std::vector<std::int32_t>& queries,
             const std::vector<std::int32_t>& keys) {
  sizes.batch = static_cast<std::int64_t>(queries.size()) - 1;
  sizes.queries.offsets = queries;
  sizes.keys.offsets = keys;
  return sizes;
}

void window(Problem& p, std::int64_t left, std::int64_t right) {
  p.desc.window = 1;
  p.desc.window_left = left;
  p.desc.window_right = right;
}

}  // namespace

Sizes causal(Sizes sizes, heed_causal causal, std::int64_t offset) {
  sizes.causal = causal;
  sizes.causal_offset = offset;
  return sizes;
}

/// Queries, keys, features, value features, batch, query heads, key heads.
const std::vector<Case>& cases() {
  static const std::
      vector<Case>
          all =
              {
                  {"plain", {77, 77, 16, 12, 2, 4, 2}},
                  {"other lengths, one head", {23, 197, 7, 9}},
                  {"no queries", {0, 23, 8, 8, 1, 2, 2}},
                  {"no keys", {23, 0, 8, 8, 1, 2, 2}},
                  {"no heads", {23, 23, 8, 8, 1, 0, 0}},
                  {"one row", {1, 1, 8, 8, 1, 2, 2}},
                  {"causal", causal({77, 77, 16, 16, 1, 8, 4}, HEED_CAUSAL_TOP_LEFT)},
                  {"causal, last row sees all",
                   causal({50, 77, 16, 16, 1, 2, 2}, HEED_CAUSAL_BOTTOM_RIGHT)},
                  {"causal, rows that see nothing",
                   causal({77, 50, 16, 16, 1, 2, 2}, HEED_CAUSAL_OFFSET, -40)},
                  {"causal, and the first key of the next shard",
                   causal({77, 77, 16, 16, 1, 2, 2}, HEED_CAUSAL_OFFSET, 1)},
                  {"heads for three ranks", {23, 77, 8, 8, 2, 12, 6}},
                  {"heads for seven ranks", {23, 77, 8, 8, 1, 7, 7}},
                  {"window", {77, 77, 16, 16, 1, 2, 2}, [](Problem& p) { window(p, 9, 5); }},
                  {"causal window and slopes",
                   causal({77, 77, 16, 16, 1, 4, 2}, HEED_CAUSAL_TOP_LEFT),
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
                     p.add_bias({1, 1, 23, 1}, HEED_DTYPE_BF16).fill([](const Axes& x) {
                       return x[2];
                     });
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
                  {"a mask and a bias of each head",
                   {23, 77, 8, 8, 2, 12, 6},
                   [](Problem& p) {
                     p.add_mask({1, 12, 23, 77}).fill([](const Axes& x) {
                       return (x[1] + x[2] + x[3]) % 4 != 0;
                     });
                     Random random(11);
                     p.add_bias({2, 12, 23, 77}).fill([&] { return random.normal(); });
                   }},
                  {"a causal mask of all heads, a bias of each head and all rows",
                   causal({50, 77, 8, 8, 2, 7, 7}, HEED_CAUSAL_BOTTOM_RIGHT),
                   [](Problem& p) {
                     p.add_mask({2, 1, 50, 1}).fill([](const Axes& x) { return x[2] % 5 != 0; });
                     Random random(12);
                     p.add_bias({1, 7, 1, 77}).fill([&] { return random.normal(); });
                   }},
                  {"a bias of rows that all heads share",
                   {23, 50, 8, 8, 2, 12, 12},
                   [](Problem& p) {
                     Random random(13);
                     p.add_bias({2, 1, 23, 50}).fill([&] { return random.normal(); });
                   }},
                  {"softcap, temperature and scale",
                   {23, 77, 16, 16, 1, 2, 2},
                   [](Problem& p) {
                     p.desc.softcap = 3;
                     p.desc.temperature = 0.5;
                     p.desc.scale = 0.7;
                   }},
                  {"bfloat16", of_types(causal({77, 77, 16, 16, 1, 4, 4}, HEED_CAUSAL_TOP_LEFT),
                                        all_of(HEED_DTYPE_BF16))},
                  {"mixed types",
                   of_types({23, 77, 16, 16, 1, 4, 4},
                            {HEED_DTYPE_F32, HEED_DTYPE_F16, HEED_DTYPE_BF16, HEED_DTYPE_F16})},
                  {"packed",
                   packed({43, 45, 16, 12, 1, 4, 2}, {0, 11, 11, 54, 77}, {0, 35, 40, 40, 85})},
                  {"packed causal", packed(causal({30, 30, 16, 16, 1, 12, 6}, HEED_CAUSAL_TOP_LEFT),
                                           {0, 30, 30, 37, 61}, {0, 30, 30, 37, 61})},
                  {"packed causal, last rows see all, sinks",
                   packed(causal({40, 50, 16, 16, 1, 2, 2}, HEED_CAUSAL_BOTTOM_RIGHT),
                          {0, 9, 49, 60}, {0, 50, 60, 64}),
                   [](Problem& p) {
                     p.sinks.numbers = {1, -2};
                   }},
                  {"packed key lengths",
                   packed({43, 45, 16, 12, 1, 4, 2}, {0, 11, 11, 54, 77}, {0, 35, 40, 40, 85}),
                   [](Problem& p) {
                     p.key_lengths = {20, 5, 0, 44};
                   }},
                  {"packed causal key lengths",
                   packed(causal({40, 40, 16, 16, 1, 2, 2}, HEED_CAUSAL_TOP_LEFT), {0, 40, 55, 60},
                          {0, 40, 55, 60}),
                   [](Problem& p) {
                     p.key_lengths = {33, 0, 5};
                     p.sinks.numbers = {1, -2};
                   }},
                  {"packed window and slopes",
                   packed({40, 40, 16, 16, 1, 2, 1}, {0, 40, 55, 60}, {0, 30, 70, 75}),
                   [](Problem& p) {
                     p.desc.alignment = HEED_ALIGNMENT_OFFSET;
                     p.desc.alignment_offset = -3;
                     window(p, 8, 5);
                     p.slopes.numbers = {0.03, 0.1};
                   }},
                  {"float64",
                   of_types(causal({77, 77, 16, 16, 1, 4, 2}, HEED_CAUSAL_TOP_LEFT),
                            all_of(HEED_DTYPE_F64)),
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

TwoWords packed_and_masked(std::uint64_t seed) {
  Problem p({60, 64, 16, 12, 1, 4, 2});
  p.fill(seed);
  Random random(seed);
  p.add_mask(p.pairs()).fill([&] { return random.integer(0, 3) > 0; });
  p.add_bias({1, 4, 60, 64}).fill([&] { return random.normal(); });
  p.want_lse();
  TwoWords both = {p, p};
  both.masked.mask->set_where([](const Axes& x) { return (x[2] < 25) != (x[3] < 30); }, 0);
  both.packed.cu_seqlens_q = {0, 25, 60};
  both.packed.cu_seqlens_k = {0, 30, 64};
  return both;
}

bool heads_may_be_shared(const Problem& p, std::int64_t by) {
  const std::int64_t key_heads = p.key.shape()[1];
  return key_heads > 0 && key_heads % by == 0 && ranks() % by == 0;
}

}  // namespace heed_test
