// NaN and infinities where random blocks do not have them.
#include "tests/multihead/checks.hpp"

using namespace heed_test;

namespace {

Block block_of(std::uint32_t combine, Index queries, Index keys) {
  BlockChoice choice;
  choice.combine = combine;
  choice.width_query = choice.width_key = 10;
  Block block = plain_block(queries, keys, 4, 6, choice, 2, 2, 5);
  block.fill(31);
  return block;
}

}  // namespace

TEST_CASE("keys past a length may hold anything", "[special]") {
  const IsaContexts contexts;
  Block block = block_of(HEED_COMBINE_CONCAT, 8, 20);
  block.attention.key_lengths = {20, 11};
  std::vector<Outputs> clean;
  for (std::size_t n = 0; n < contexts.size(); ++n) clean.push_back(block.run_all(contexts[n]));
  for (Index j = 11; j < 20; ++j)
    for (Index f = 0; f < 10; ++f)
      block.input_key->set({1, 0, j, f}, f % 2 == 0 ? kNaN : kInfinity);
  for (std::size_t n = 0; n < contexts.size(); ++n)
    check_same(IsaContexts::name(n), block.run_all(contexts[n]), clean[n]);
}

TEST_CASE("the largest of heads of which one is NaN is NaN", "[special]") {
  const IsaContexts contexts;
  for (const Index h : {0, 1, 2, 3}) {
    Block block = block_of(HEED_COMBINE_MAX, 26, 9);
    block.w_query.set(0, 3, h * 6 + 2, kNaN);  // that head's queries
    for (std::size_t n = 0; n < contexts.size(); ++n) {
      const Numbers out = block.run_all(contexts[n]).out;
      std::size_t numbers = 0;
      for (std::size_t i = 0; i < out.size(); ++i) numbers += std::isnan(out[i]) ? 0 : 1;
      CHECK(numbers == 0);
    }
  }
}
