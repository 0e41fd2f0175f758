#include <algorithm>

#include "tests/problem/random_problems.hpp"

namespace heed_test {
namespace {

/// The three matrices side by side in one W_qkv: [in, q k v], or [q k v, in].
void pack_qkv(Draw& draw, const std::vector<LaidOutMatrix>& matrices, heed_multihead_desc& d) {
  const bool transposed = draw.one_in(2);
  Index columns = 0;
  Index rows = 0;
  for (std::size_t i = 0; i < 3; ++i) columns += matrices[i].out;
  for (std::size_t i = 0; i < 3; ++i) rows = std::max(rows, matrices[i].in);
  for (heed_matrix_layout* const w : {&d.w_query, &d.w_key, &d.w_value}) {
    w->dtype = d.w_query.dtype;
    w->reserved = HEED_STRIDES_DEFAULT;
    w->stride_in = transposed ? 1 : columns;
    w->stride_out = transposed ? rows : 1;
  }
}

void plant_specials(Draw& draw, Block& block) {
  for (std::int64_t n = draw.integer(1, 3); n > 0; --n) {
    const std::int64_t kind = draw.integer(0, 9);
    Tensor& input = block.input_key ? *block.input_key : block.input_query;
    if (kind < 7)
      draw.plant(kind < 5 ? input : block.input_query);
    else
      draw.plant(kind == 7   ? block.w_value.tensor
                 : kind == 8 ? block.w_key.tensor
                             : (block.w_out ? *block.w_out : block.w_query).tensor);
  }
}

Block drawn_block(Draw& draw, const Forms& forms) {
  const Problem attention = draw_problem(draw, forms);
  const heed_multihead_desc desc = draw_block_desc(draw, attention.desc, forms.lengths);
  const bool self = forms.lengths == Lengths::kSelf && !draw.one_in(5);
  Block block(attention, desc, self, draw.index(4));
  draw_arrays(draw, block);
  return block;
}

Forms forms_of(Draw& draw, bool differentiable) {
  return {draw.one_in(2) ? Lengths::kSelf : Lengths::kAny, differentiable, true};
}

}  // namespace

heed_multihead_desc draw_block_desc(Draw& draw, const heed_attention_desc& a, Lengths lengths) {
  heed_multihead_desc d = HEED_MULTIHEAD_DESC_INIT;
  d.attention = &a;
  const bool float64 = is_float64(a);
  const bool small = lengths == Lengths::kSmall;
  d.combine = draw.pick<std::uint32_t>({HEED_COMBINE_CONCAT, HEED_COMBINE_CONCAT,
                                        HEED_COMBINE_WEIGHTED, HEED_COMBINE_MEAN, HEED_COMBINE_MAX,
                                        HEED_COMBINE_TENSOR, HEED_COMBINE_HEADS});
  // Blocks of inputs and outputs in products end at multiples of 16, and at some hundreds.
  d.width_query = small ? draw.size(1) : draw.integer(1, 24);
  if (draw.one_in(small ? 16 : 8)) d.width_query = draw.integer(25, 150);
  if (!small && draw.one_in(60)) d.width_query = draw.integer(200, 600);
  d.width_key = small ? draw.size(1) : draw.integer(1, 40);
  if (lengths == Lengths::kSelf || draw.one_in(4)) d.width_key = draw.one_in(2) ? 0 : d.width_query;
  if (has_w_out(d.combine) && !draw.one_in(3))
    d.width_out = small ? draw.size(1) : draw.integer(1, draw.one_in(8) ? 90 : 24);
  d.input_query.dtype = draw.dtype(float64, false);
  LaidOutBlock laid(d);
  laid.input_query.draw(draw, d.input_query.dtype);
  laid.input_key.draw(draw, draw.dtype(float64, true));
  laid.out.draw(draw, draw.dtype(float64, true));
  for (LaidOutMatrix& w : laid.matrices) w.laid.draw(draw, draw.dtype(float64, true));
  if (draw.one_in(4)) pack_qkv(draw, laid.matrices, d);
  d.bias_dtype = draw.dtype(float64, true);
  return d;
}

void draw_arrays(Draw& draw, Block& block) {
  fill_normally(block.input_query, draw.bits());
  if (block.input_key) fill_normally(*block.input_key, draw.bits());
  const double amplitude = draw.uniform(0.1, draw.one_in(4) ? 3 : 1.2);
  const std::vector<WeightMatrix*> matrices = block.matrices();
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const bool prepared = draw.one_in(3);
    // Those that are not prepared share a type of biases.
    const std::uint32_t type =
        prepared ? draw.dtype(block.real == HEED_DTYPE_F64, true) : block.own_desc.bias_dtype;
    matrices[i]->prepared = prepared;
    matrices[i]->draw(draw, type, i == 3 ? 1 : amplitude);
  }
  Random random = draw.numbers();
  block.fill_head_weights(random);
  if (draw.one_in(8)) plant_specials(draw, block);
}

heed_multihead_backward_desc draw_backward(Draw& draw, const heed_multihead_desc& block) {
  heed_multihead_backward_desc d = HEED_MULTIHEAD_BACKWARD_DESC_INIT;
  d.block = &block;
  d.accumulate = draw.one_in(4) ? 1 : 0;
  draw_layouts(draw, laid_out(d), [&](std::size_t of) {
    return of == kBlockBias ? draw.dtype() : draw.dtype(is_float64(block), true);
  });
  return d;
}

Block draw_block(std::uint64_t seed) {
  Draw draw(seed ^ 0xb10c);
  return drawn_block(draw, forms_of(draw, false));
}

Block draw_differentiable_block(std::uint64_t seed) {
  Draw draw(seed ^ 0xb10c);
  return drawn_block(draw, forms_of(draw, true));
}

BlockBackward draw_block_backward(std::uint64_t seed) {
  Draw draw(seed ^ 0xbac4b10c);
  Block block = drawn_block(draw, forms_of(draw, true));
  const heed_multihead_desc of_block = block.desc();
  const heed_multihead_backward_desc desc = draw_backward(draw, of_block);
  BlockBackward p(std::move(block), desc);
  p.draw_tensors(draw);
  return p;
}

}  // namespace heed_test
