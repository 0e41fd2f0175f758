// Descriptors of dense attention, drawn from the fuzzer's bytes.
#include "tests/fuzz/attention_case.hpp"

namespace heed_test {
namespace {

void draw_sizes(Draw& draw, heed_attention_desc& d, std::int64_t fewest_heads) {
  d.batch = draw.integer(0, 3);
  d.key_heads = draw.integer(fewest_heads, 2);
  d.query_heads = d.key_heads * draw.integer(1, 3);
  d.query_length = draw.size(0);
  d.key_length = draw.one_in(3) ? d.query_length : draw.size(0);
  d.features = draw.size(1);
  d.value_features = draw.size(1);
  if (draw.one_in(4)) d.packed_queries = draw.integer(1, 20);
  if (draw.one_in(4)) d.packed_keys = draw.integer(1, 20);
}

void draw_pages(Draw& draw, heed_attention_desc& d) {
  if (d.packed_keys > 0 || !draw.one_in(3)) return;
  d.pages = draw.integer(1, 7);
  d.page_rows = 16 * draw.integer(1, 3);
  if (draw.one_in(2)) d.key_length = draw.integer(0, 80);
  if (draw.one_in(3)) d.block_table_stride = block_table_stride_of(d) + draw.integer(0, 3);
}

void draw_positions(Draw& draw, heed_attention_desc& d) {
  d.causal = draw.choice(HEED_CAUSAL_OFFSET);
  const std::int64_t offset = draw.one_in(4) ? draw.hostile() : draw.integer(-9, 9);
  if (d.causal == HEED_CAUSAL_OFFSET) d.causal_offset = offset;
  if (d.causal == HEED_CAUSAL_NONE) d.alignment = draw.choice(HEED_ALIGNMENT_OFFSET);
  if (d.alignment == HEED_ALIGNMENT_OFFSET) d.alignment_offset = offset;
  if (!stands(d) || !draw.one_in(3)) return;
  d.window = 1;
  const auto side = [&] {
    const std::int64_t bound = draw.one_in(4) ? draw.hostile() : draw.integer(-1, 9);
    return bound < -1 ? -1 : bound;
  };
  d.window_left = side();
  d.window_right = side();
}

void draw_options(Draw& draw, heed_attention_desc& d) {
  if (draw.one_in(3)) d.scale = draw.pick<double>({0.25, -0.5, 1, 1e-30, 3});
  if (draw.one_in(3)) d.softcap = draw.pick<double>({0.5, 30, 1e4});
  if (draw.one_in(8))
    d.hard = 1;
  else if (draw.one_in(3))
    d.temperature = draw.pick<double>({0.5, 3, 1e4, kInfinity});
  d.weights_point = draw.one_in(3) ? draw.choice(HEED_WEIGHTS_PROBABILITIES) : 0;
  d.sum_columns = draw.one_in(4) ? 1 : 0;
  if (d.weights_point != 0 && draw.one_in(3)) d.weight_rows = draw.integer(0, d.query_length);
}

}  // namespace

heed_attention_desc draw_attention(Draw& draw, bool of_block) {
  heed_attention_desc d = HEED_ATTENTION_DESC_INIT;
  draw_sizes(draw, d, of_block ? 1 : 0);
  if (!of_block) draw_pages(draw, d);
  draw_positions(draw, d);
  draw_options(draw, d);
  const Axes pairs = {d.batch, d.query_heads, d.query_length, d.key_length};
  const std::int64_t q_batch = d.packed_queries > 0 ? 1 : d.batch;
  const std::int64_t q_rows = d.packed_queries > 0 ? d.packed_queries : d.query_length;
  d.mask = draw.score_layout(pairs, 0);
  d.bias = draw.score_layout(pairs, draw.dtype());
  const auto lse = draw.pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32, HEED_DTYPE_F64});
  d.lse = draw.layout({q_batch, d.query_heads, q_rows, 1}, Use::kWritten, lse);
  const std::int64_t listed = d.weight_rows > 0 ? d.weight_rows : d.query_length;
  d.weights =
      draw.layout({d.batch, d.query_heads, listed, d.key_length}, Use::kWritten, draw.dtype());
  d.column_sums =
      draw.layout({d.batch, d.query_heads, d.key_length, 1}, Use::kWritten, draw.dtype());
  if (d.key_heads == d.query_heads && draw.one_in(2)) d.key_heads = 0;
  if (d.value_features == d.features && draw.one_in(2)) d.value_features = 0;
  return d;
}

void draw_layouts(Draw& draw, heed_attention_desc& d, bool float64) {
  const AttentionShapes shapes(d);
  const auto layout = [&](const Axes& shape, Use use) {
    return draw.layout(shape, use, draw.dtype(float64, false));
  };
  const auto key_layout = [&](const Axes& shape, heed_layout& scales) {
    heed_layout layout = draw.layout(shape, Use::kRead, draw.dtype(float64, false));
    if (float64 || !draw.one_in(3)) return layout;
    layout.dtype = draw.pick<std::uint32_t>({HEED_DTYPE_I8, HEED_DTYPE_F8_E4M3});
    if (layout.dtype == HEED_DTYPE_I8)
      scales = draw.layout(scales_of(shape), Use::kRead,
                           draw.pick<std::uint32_t>({HEED_DTYPE_DEFAULT, HEED_DTYPE_F32}));
    return layout;
  };
  d.query = layout(shapes.query, Use::kRead);
  d.key = key_layout(shapes.key, d.key_scales);
  d.value = key_layout(shapes.value, d.value_scales);
  d.out = layout(shapes.out, Use::kWritten);
}

}  // namespace heed_test
