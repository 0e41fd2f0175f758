#include "tests/multihead/copies.hpp"

namespace heed_test {

Block plain_block(Index queries, Index keys, Index heads, Index features, const BlockChoice& choice,
                  Index batch, Index key_heads, Index value_features) {
  Sizes sizes = {queries, keys, features, value_features == 0 ? features : value_features};
  sizes.batch = batch;
  sizes.query_heads = heads;
  sizes.key_heads = key_heads == 0 ? heads : key_heads;
  sizes.types = all_of(choice.dtype_query == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32);
  return Block(Problem(sizes), choice);
}

void copy_numbers(const Tensor& from, Tensor& to, Index item) {
  to.each([&](const Axes& at) { to.set(at, from.get({at[0] + item, at[1], at[2], at[3]})); });
}

void copy_numbers(const WeightMatrix& from, WeightMatrix& to) {
  to.each([&](Index m, Index i, Index o) {  // one matrix below the other
    const Index row = m * to.in() + i;
    to.set(m, i, o, from.get(row / from.in(), row % from.in(), o));
  });
  if (from.bias) copy_numbers(*from.bias, *to.bias);
}

void copy_matrices(const Block& from, Block& to) {
  copy_numbers(from.w_query, to.w_query);
  copy_numbers(from.w_key, to.w_key);
  copy_numbers(from.w_value, to.w_value);
  if (from.w_out && to.w_out) copy_numbers(*from.w_out, *to.w_out);
  to.head_weights = from.head_weights;
}

Block remade(const Block& block, const BlockChoice& choice) {
  Block other(block.attention, choice);
  copy_numbers(block.input_query, other.input_query);
  if (other.input_key)
    copy_numbers(block.input_key ? *block.input_key : block.input_query, *other.input_key);
  copy_matrices(block, other);
  return other;
}

std::array<MatrixChoice*, 4> matrices_of(BlockChoice& choice) {
  return {&choice.w_query, &choice.w_key, &choice.w_value, &choice.w_out};
}

}  // namespace heed_test
