#include "tests/multihead/checks.hpp"

#include <sstream>

namespace heed_test {

const char* name_of_combine(std::uint32_t combine) {
  constexpr const char* kNames[] = {"concat", "weighted", "mean", "max", "tensor"};
  return kNames[combine];
}

std::string line_of(const char* name, const WeightMatrix& w, const MatrixChoice& choice) {
  std::ostringstream line;
  line << " " << name << " " << name_of_dtype(choice.dtype) << " " << name_of(choice.arrangement);
  if (choice.before + choice.after > 0) line << " " << choice.before << "+" << choice.after;
  if (w.prepared) line << " prepared";
  if (w.bias) line << " bias " << name_of_dtype(w.bias->dtype());
  return line.str();
}

std::string line_of(const Block& b) {
  const BlockChoice& c = b.choice;
  std::ostringstream line;
  line << name_of_combine(c.combine) << " widths " << c.width_query << "," << c.width_key << ","
       << b.out_width() << (c.self ? " self" : "") << " in " << name_of_dtype(c.dtype_query) << " "
       << name_of(c.query) << " " << name_of_dtype(c.dtype_key) << " " << name_of(c.key) << " out "
       << name_of_dtype(c.dtype_out) << " " << name_of(c.out) << line_of("wq", b.w_query, c.w_query)
       << line_of("wk", b.w_key, c.w_key) << line_of("wv", b.w_value, c.w_value);
  if (b.w_out) line << line_of("wo", *b.w_out, c.w_out);
  line << "; " << line_of(b.attention);
  return line.str();
}

Ratios check_outputs(const Block& block, const std::string& isa, const Outputs& got,
                     const Expected& want, Unspecified unspecified) {
  const std::string line = isa + ": " + line_of(block) + ", ";
  Ratios ratios = check_further(line, block.attention, got, want, unspecified);
  ratios.out = check_elements(line + "out", block.out.shape(), got.out, want.out, unspecified);
  return ratios;
}

void check_block(Block& block, const IsaContexts& contexts, Report* report) {
  const Expected want = block.expected();
  check_isas(line_of(block), report, [&](std::size_t i, const char* isa) {
    return check_outputs(block, isa, block.run_all(contexts[i]), want).worst();
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
