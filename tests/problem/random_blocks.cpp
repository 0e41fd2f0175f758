#include "tests/problem/random_blocks.hpp"

#include "tests/problem/random_backward.hpp"
#include "tests/support/pages.hpp"

namespace heed_test {

Block RandomBlocks::draw() {
  const bool self = one_in(2);
  const Lengths lengths = self ? Lengths::kSelf : Lengths::kAny;
  const Problem attention = differentiable_ ? differentiable(seed_, lengths)
                                            : contiguous(RandomForms(seed_, lengths).draw());
  float64_ = is_float64(attention.desc);
  Block block(attention, draw_choice(self, attention));
  block.fill(random_.bits(), uniform(0.1, one_in(4) ? 3 : 1.2));
  if (one_in(8)) plant_specials(block);
  return block;
}

BlockChoice RandomBlocks::draw_choice(bool self, const Problem& attention) {
  BlockChoice c;
  c.self = self && !one_in(5);
  // Blocks of inputs and outputs in products end at multiples of 16, and at some hundreds.
  c.width_query = one_in(8) ? random_.integer(25, 150) : random_.integer(1, 24);
  if (one_in(60)) c.width_query = random_.integer(200, 600);
  c.width_key = self || one_in(4) ? c.width_query : random_.integer(1, 40);
  c.width_out = one_in(8) ? random_.integer(25, 90) : random_.integer(1, 24);
  c.combine = pick<std::uint32_t>({HEED_COMBINE_CONCAT, HEED_COMBINE_CONCAT, HEED_COMBINE_CONCAT,
                                   HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN, HEED_COMBINE_MAX,
                                   HEED_COMBINE_TENSOR, HEED_COMBINE_TENSOR, HEED_COMBINE_HEADS});
  c.dtype_query = draw_type();
  c.dtype_key = draw_type();
  c.dtype_out = draw_type();
  c.bias_dtype = draw_matrix_type();
  c.query = draw_arrangement();
  c.key = draw_arrangement();
  c.out = draw_arrangement();
  c.misalign = static_cast<std::size_t>(random_.integer(0, 3));
  for (MatrixChoice* const w : {&c.w_query, &c.w_key, &c.w_value, &c.w_out}) *w = draw_matrix();
  if (one_in(4)) pack_qkv(c, attention);
  return c;
}

std::uint32_t RandomBlocks::draw_narrow() {
  return pick<std::uint32_t>(
      {HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F32, HEED_DTYPE_BF16, HEED_DTYPE_F16});
}

std::uint32_t RandomBlocks::draw_matrix_type() {
  return float64_ && one_in(2) ? std::uint32_t{HEED_DTYPE_DEFAULT} : draw_type();
}

MatrixChoice RandomBlocks::draw_matrix() {
  MatrixChoice w;
  w.dtype = draw_matrix_type();
  w.bias_dtype = draw_matrix_type();
  w.arrangement = one_in(3) ? Arrangement::kTransposed : draw_arrangement();
  if (one_in(6)) w.before = random_.integer(0, 9);
  if (one_in(6)) w.after = random_.integer(0, 9);
  w.misalign = static_cast<std::size_t>(random_.integer(0, 3));
  w.bias = !one_in(3);
  w.prepared = one_in(3);
  return w;
}

void RandomBlocks::pack_qkv(BlockChoice& c, const Problem& attention) {
  const heed_attention_desc& d = attention.desc;
  const Index q = d.query_heads * d.features;
  const Index k = key_heads_of(d) * d.features;
  const Index v = key_heads_of(d) * value_features_of(d);
  c.w_key.dtype = c.w_value.dtype = c.w_query.dtype;
  const bool transposed = one_in(2);
  for (MatrixChoice* const w : {&c.w_query, &c.w_key, &c.w_value})
    w->arrangement = transposed ? Arrangement::kTransposed : Arrangement::kContiguous;
  c.w_query.before = 0;
  c.w_query.after = k + v;
  c.w_key.before = q;
  c.w_key.after = v;
  c.w_value.before = q + k;
  c.w_value.after = 0;
}

void RandomBlocks::plant_specials(Block& block) {
  const std::int64_t count = random_.integer(1, 3);
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t kind = random_.integer(0, 9);
    Tensor& input = block.input_key ? *block.input_key : block.input_query;
    if (kind < 7)
      plant(kind < 5 ? input : block.input_query);
    else
      plant(kind == 7   ? block.w_value.tensor
            : kind == 8 ? block.w_key.tensor
                        : (block.w_out ? *block.w_out : block.w_query).tensor);
  }
}

}  // namespace heed_test
