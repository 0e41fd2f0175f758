#include "tests/fuzz/block_case.hpp"

namespace heed_test {

BlockShapes::BlockShapes(const heed_multihead_desc& d, const heed_attention_desc& a) {
  const AttentionShapes attention(a);
  width_query = d.width_query;
  width_key = d.width_key == 0 ? d.width_query : d.width_key;
  head = value_features_of(a);
  const std::int64_t combined = (d.combine == HEED_COMBINE_HEADS ? a.query_heads : 1) * head;
  const std::int64_t natural = has_w_out(d.combine) ? width_query : combined;
  width_out = d.width_out == 0 ? natural : d.width_out;
  query = {attention.query[0], 1, attention.query[2], width_query};
  key = {attention.key[0], 1, attention.key[2], width_key};
  out = {query[0], 1, query[2], width_out};
  matrices = {{0, width_query, a.query_heads * a.features},
              {0, width_key, key_heads_of(a) * a.features},
              {0, width_key, key_heads_of(a) * head}};
  if (d.combine == HEED_COMBINE_CONCAT) matrices.push_back({0, a.query_heads * head, width_out});
  if (d.combine == HEED_COMBINE_TENSOR) matrices.push_back({a.query_heads, head, width_out});
}

heed_layout draw_rows(Draw& draw, const Axes& shape, Use use, std::uint32_t dtype) {
  heed_layout layout = draw.layout(shape, use, dtype);
  layout.stride_head = 0;  // there are no heads
  return layout;
}

heed_multihead_desc draw_block(Draw& draw, const heed_attention_desc& a) {
  heed_multihead_desc d = HEED_MULTIHEAD_DESC_INIT;
  const bool float64 = draw.one_in(4);
  d.combine = draw.choice(HEED_COMBINE_HEADS);
  d.width_query = draw.one_in(16) ? draw.integer(120, 140) : draw.size(1);
  d.width_key = draw.one_in(2) ? 0 : draw.size(1);
  if (has_w_out(d.combine)) d.width_out = draw.one_in(3) ? 0 : draw.size(1);
  const BlockShapes shapes(d, a);
  d.input_query = draw_rows(draw, shapes.query, Use::kRead, draw.dtype(float64, false));
  d.input_key = draw_rows(draw, shapes.key, Use::kRead, draw.dtype(float64, true));
  d.out = draw_rows(draw, shapes.out, Use::kWritten, draw.dtype(float64, true));
  heed_matrix_layout* const layouts[] = {&d.w_query, &d.w_key, &d.w_value, &d.w_out};
  for (std::size_t i = 0; i < shapes.matrices.size(); ++i) {
    const MatrixShape& m = shapes.matrices[i];
    *layouts[i] = draw.matrix_layout(m.matrices, m.in, m.out, draw.dtype(float64, true));
  }
  d.bias_dtype = draw.dtype(float64, true);
  return d;
}

heed_attention_desc inner_of(const heed_multihead_desc& d, heed_attention_desc a) {
  a.query.dtype = a.key.dtype = a.value.dtype = a.out.dtype = real_of(d);
  return a;
}

BlockCase::BlockCase(const heed_multihead_desc& d, const heed_attention_desc& inner)
    : d_(d),
      inner_(inner),
      shapes_(d, inner),
      attention_(inner, false),
      input_query_in_(shapes_.query, d.input_query, real_of(d), inner.packed_queries > 0),
      input_key_in_(shapes_.key, d.input_key, real_of(d), inner.packed_keys > 0),
      out_in_(shapes_.out, d.out, real_of(d), inner.packed_queries > 0) {
  const heed_matrix_layout* const layouts[] = {&d.w_query, &d.w_key, &d.w_value, &d.w_out};
  for (std::size_t i = 0; i < shapes_.matrices.size(); ++i) {
    const MatrixShape& m = shapes_.matrices[i];
    matrices_.emplace_back(m.matrices, m.in, m.out, *layouts[i], real_of(d), d.bias_dtype);
  }
}

bool BlockCase::small() {
  bool small = attention_.small();
  for (const Extent* const extent : {&input_query_in_, &input_key_in_, &out_in_})
    small = check_extent(*extent) && small;
  for (const FuzzMatrix& matrix : matrices_) small = matrix.small() && small;
  if (!small) return false;
  demand(out_in_.apart(), "an output whose elements overlap is accepted");
  return true;
}

void BlockCase::make(Draw& draw) {
  attention_.make(draw);
  Random random(draw.bits());
  const auto number = [&] { return random.normal(); };
  const auto misalign = static_cast<std::size_t>(draw.integer(0, 2));
  input_query_.emplace(input_query_in_.tensor(misalign));
  input_query_->fill(number);
  const bool fits =
      shapes_.query == shapes_.key && (inner_.packed_queries > 0) == (inner_.packed_keys > 0);
  if (!fits || !draw.one_in(3)) input_key_.emplace(input_key_in_.tensor(0));
  if (input_key_) input_key_->fill(number);
  if (draw.one_in(16)) draw.plant({&*input_query_});
  out_.emplace(out_in_.tensor(1));
  for (FuzzMatrix& matrix : matrices_) {
    matrix.make(draw);
    if (draw.one_in(4)) matrix.prepare();
  }
  if (d_.combine != HEED_COMBINE_WEIGHTED) return;
  head_weights_.numbers.resize(static_cast<std::size_t>(inner_.query_heads));
  for (double& weight : head_weights_.numbers) weight = random.normal<double>();
}

heed_multihead_args BlockCase::args() {
  heed_multihead_args a = HEED_MULTIHEAD_ARGS_INIT;
  a.input_query = input_query_->data();
  if (input_key_) a.input_key = input_key_->data();
  matrices_[0].give(a.w_query, a.b_query, a.p_query);
  matrices_[1].give(a.w_key, a.b_key, a.p_key);
  matrices_[2].give(a.w_value, a.b_value, a.p_value);
  if (matrices_.size() > 3) matrices_[3].give(a.w_out, a.b_out, a.p_out);
  a.head_weights = head_weights_.data(is_float64(d_));
  a.out = out_->data();
  return a;
}

namespace {

/// A bias that is prepared is not in the arguments, but is there.
GivenMatrix given_of(const FuzzMatrix& matrix, const void* bias) {
  GivenMatrix given = matrix.given();
  if (matrix.prepared() == nullptr && bias == nullptr) given.bias.data = nullptr;
  return given;
}

}  // namespace

GivenBlock BlockCase::given(const heed_multihead_args& args, const heed_attention_args& inner) {
  GivenBlock given = {inner_, inner, attention_.model_of(inner)};
  given.combine = d_.combine;
  given.input_query = input_query_->source();
  given.input_key = (args.input_key != nullptr ? *input_key_ : *input_query_).source();
  given.width_query = shapes_.width_query;
  given.width_key = shapes_.width_key;
  given.w_query = given_of(matrices_[0], args.b_query);
  given.w_key = given_of(matrices_[1], args.b_key);
  given.w_value = given_of(matrices_[2], args.b_value);
  if (matrices_.size() > 3) given.w_out = given_of(matrices_[3], args.b_out);
  given.head_weights = {args.head_weights, real_of(d_), {0, 0, 0, 1}};
  given.dtype_out = out_->dtype();
  return given;
}

heed_attention_args inner_args(AttentionCase& attention) {
  heed_attention_args args = attention.args();
  args.query = args.key = args.value = nullptr;
  args.out = nullptr;
  return args;
}

}  // namespace heed_test
