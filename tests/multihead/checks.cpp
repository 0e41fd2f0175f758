#include "tests/multihead/checks.hpp"

namespace heed_test {

Ratios check_outputs(const Block& block, const std::string& isa, const Outputs& got,
                     const Expected& expected, Unspecified unspecified) {
  const Expected& want = expected.on(isa);
  const std::string line = isa + ": " + line_of(block) + ", ";
  Ratios ratios = check_further(line, block.attention, got, want, unspecified);
  ratios.out = check_elements(line + "out", block.out.shape(), got.out, want.out, unspecified);
  return ratios;
}

void check_block(Block& block, const IsaContexts& contexts, Report* report,
                 Unspecified unspecified) {
  const Expected want = block.expected();
  check_isas(line_of(block), report, [&](std::size_t i, const char* isa) {
    return check_outputs(block, isa, block.run_all(contexts[i]), want, unspecified).worst();
  });
}

Block plain_block(Index queries, Index keys, Index heads, Index features, const BlockChoice& choice,
                  Index batch, Index key_heads, Index value_features) {
  Sizes sizes = {queries, keys, features, value_features == 0 ? features : value_features};
  sizes.batch = batch;
  sizes.query_heads = heads;
  sizes.key_heads = key_heads == 0 ? heads : key_heads;
  sizes.types = all_of(choice.dtype_query == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32);
  return Block(Problem(sizes), choice);
}

}  // namespace heed_test
