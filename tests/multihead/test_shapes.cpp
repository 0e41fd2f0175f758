// Lengths, widths and heads around the sizes of panels and blocks, with every combiner.
#include "tests/multihead/checks.hpp"

using namespace heed_test;

namespace {

struct Width {
  Index width;
  Index features;
  Index value_features;
  Index out;
};

/// Around the 16 outputs that matrices are read in, and prime.
constexpr Width kWidths[] = {{1, 1, 1, 1},     {7, 3, 5, 7},    {16, 8, 8, 16},
                             {23, 16, 17, 15}, {40, 10, 7, 33}, {77, 12, 16, 49}};

struct HeadCounts {
  Index query, key;
};
constexpr HeadCounts kHeads[] = {{1, 1}, {3, 3}, {4, 2}, {5, 1}};

}  // namespace

TEST_CASE("lengths, widths, heads and combiners", "[shapes]") {
  const IsaContexts contexts;
  Report report("shapes");
  std::size_t index = 0;
  for (const Index queries : {1, 7, 23, 77, 197})
    for (const Width& w : kWidths)
      for (const HeadCounts& heads : kHeads) {
        const std::size_t n = index++;
        if (!keep(n)) continue;
        BlockChoice choice = choice_of(n % 5 == 4   ? HEED_DTYPE_F64
                                       : n % 5 == 3 ? HEED_DTYPE_BF16
                                                    : HEED_DTYPE_F32);
        choice.combine = static_cast<std::uint32_t>(n % 7 % 5);  // concat and weighted twice
        choice.self = n % 3 != 0;
        choice.width_query = w.width;
        choice.width_key = choice.self ? w.width : w.width + 2;
        choice.width_out = w.out;
        choice.w_query.arrangement = n % 2 == 0 ? Arrangement::kDefault : Arrangement::kTransposed;
        choice.w_out.prepared = choice.w_key.prepared = n % 4 < 2;
        const Index keys = choice.self        ? queries
                           : queries % 7 == 0 ? queries + 30
                                              : queries / 2 + 1;
        Block block = plain_block(queries, keys, heads.query, w.features, choice, 1 + n % 2,
                                  heads.key, w.value_features);
        block.fill(n);
        block.attention.want_lse();
        check_block(block, contexts, &report);
      }
}

TEST_CASE("inputs wider than one block of a product", "[shapes]") {
  const IsaContexts contexts;
  Report report("wide");
  std::size_t index = 0;
  for (const Index width : {127, 128, 129, 255, 257, 300, 513})
    for (const std::uint32_t dtype : {HEED_DTYPE_F32, HEED_DTYPE_F64}) {
      if (!keep(index++)) continue;
      BlockChoice choice = choice_of(dtype);
      choice.self = true;
      choice.width_query = choice.width_key = width;
      choice.width_out = width % 100 + 1;
      choice.w_value.arrangement = Arrangement::kTransposed;
      choice.w_key.prepared = true;
      Block block = plain_block(29, 29, 3, 43, choice);
      block.fill(index, 0.3);  // whose scores are not so large that their errors are all there is
      check_block(block, contexts, &report);
    }
}
