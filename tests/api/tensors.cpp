#include "tests/api/tensors.hpp"

#include "tests/oracle/dtype.hpp"

namespace api_test {

using heed_test::kByte;

std::size_t Tensor::bytes() const {
  return static_cast<std::size_t>(elements * heed_test::format_of(dtype).bytes);
}

void* Memory::take(std::size_t bytes) {
  if (fence_) {
    fenced_.push_back(std::make_unique<Fenced>(bytes, *fence_));
    return fenced_.back()->get();
  }
  plain_.push_back(std::make_unique<char[]>(bytes));
  return plain_.back().get();
}

void* Memory::place(const Tensor& tensor) {
  const void* const before = tensor.memory();
  if (before == nullptr) return nullptr;
  void* const memory = take(tensor.bytes());
  if (tensor.content == Tensor::kGiven) std::memcpy(memory, before, tensor.bytes());
  if (tensor.content == Tensor::kResult) std::memset(memory, kPattern, tensor.bytes());
  if (tensor.content == Tensor::kNumbers) {
    std::int64_t i = 0;
    for (const float x : numbers(static_cast<std::size_t>(tensor.elements), ++seed_))
      heed_test::store_bits(tensor.dtype, memory, i++,
                            heed_test::encode(tensor.dtype, tensor.dtype == kByte ? x > -1 : x));
  }
  tensor.point_at(memory);
  return memory;
}

namespace {

std::uint32_t real_of(std::uint32_t dtype) {
  return dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}
std::uint32_t or_real(std::uint32_t dtype, std::uint32_t real) {
  return dtype == HEED_DTYPE_DEFAULT ? real : dtype;
}
std::int64_t query_rows(const heed_attention_desc& d) {
  return d.packed_queries > 0 ? d.packed_queries : d.batch * d.query_length;
}
std::int64_t key_rows(const heed_attention_desc& d) {
  return d.packed_keys > 0 ? d.packed_keys : d.batch * d.key_length;
}

/// Of dense attention, and the same within a block.
std::vector<Tensor> options(const std::string& args, const heed_attention_desc& d,
                            heed_attention_args& a, std::uint32_t real) {
  const std::int64_t keys_of_heads = d.batch * d.query_heads * d.key_length;
  const std::int64_t weight_rows = d.weight_rows > 0 ? d.weight_rows : d.query_length;
  return {
      {args + "mask", &a.mask, keys_of_heads * d.query_length, kByte},
      {args + "bias", &a.bias, keys_of_heads * d.query_length, or_real(d.bias.dtype, real)},
      {args + "key_lengths", &a.key_lengths, d.batch, kI32, Tensor::kGiven},
      {args + "cu_seqlens_q", &a.cu_seqlens_q, d.batch + 1, kI32, Tensor::kGiven},
      {args + "cu_seqlens_k", &a.cu_seqlens_k, d.batch + 1, kI32, Tensor::kGiven},
      {args + "block_table", &a.block_table, d.pages > 0 ? d.batch : 0, kI32, Tensor::kGiven},
      {args + "alibi_slopes", &a.alibi_slopes, d.query_heads, real},
      {args + "sinks", &a.sinks, d.query_heads, real},
      {args + "weight_rows", &a.weight_rows, d.weight_rows, kI64, Tensor::kGiven},
      {args + "lse", &a.lse, d.query_heads * query_rows(d), or_real(d.lse.dtype, real),
       Tensor::kResult},
      {args + "weights", &a.weights, keys_of_heads * weight_rows, or_real(d.weights.dtype, real),
       Tensor::kResult},
      {args + "column_sums", &a.column_sums, keys_of_heads, or_real(d.column_sums.dtype, real),
       Tensor::kResult},
  };
}

}  // namespace

std::vector<Tensor> tensors_of(Form& f) {
  const heed_attention_desc& d = f.desc;
  std::vector<Tensor> all = options("args.", d, f.args, real_of(d.query.dtype));
  const auto scales = [&](const heed_layout& of) {
    return of.dtype == HEED_DTYPE_I8 ? key_rows(d) * d.key_heads : std::int64_t{1};
  };
  const Tensor own[] = {
      {"args.query", &f.args.query, query_rows(d) * d.query_heads * d.features, d.query.dtype},
      {"args.key", &f.args.key, key_rows(d) * d.key_heads * d.features, d.key.dtype},
      {"args.value", &f.args.value, key_rows(d) * d.key_heads * d.value_features, d.value.dtype},
      {"args.out", &f.args.out, query_rows(d) * d.query_heads * d.value_features, d.out.dtype,
       Tensor::kResult},
      {"args.key_scales", &f.args.key_scales, scales(d.key), HEED_DTYPE_F32},
      {"args.value_scales", &f.args.value_scales, scales(d.value), HEED_DTYPE_F32},
  };
  all.insert(all.begin(), std::begin(own), std::end(own));
  return all;
}

std::vector<Tensor> tensors_of(BackwardForm& f) {
  const heed_attention_desc& d = f.attention;
  const heed_attention_backward_desc& b = f.desc;
  heed_attention_backward_args& a = f.args;
  const std::uint32_t real = real_of(d.query.dtype);
  const std::int64_t rows = query_rows(d) * d.query_heads;
  const std::int64_t keys = key_rows(d) * d.key_heads;
  std::vector<Tensor> all = options("args.attention->", d, f.inner, real);
  for (Tensor& tensor : all)
    if (tensor.field == &f.inner.lse) tensor.content = Tensor::kNumbers;
  const std::int64_t biases = d.batch * d.query_heads * d.query_length * d.key_length;
  const Tensor own[] = {
      {"args.attention->query", &f.inner.query, rows * d.features, d.query.dtype},
      {"args.attention->key", &f.inner.key, keys * d.features, d.key.dtype},
      {"args.attention->value", &f.inner.value, keys * d.value_features, d.value.dtype},
      {"args.attention->out", &f.inner.out, rows * d.value_features, d.out.dtype},
      {"args.grad_out", &a.grad_out, rows * d.value_features, b.grad_out.dtype},
      {"args.grad_lse", &a.grad_lse, rows, or_real(b.grad_lse.dtype, real)},
      {"args.grad_query", &a.grad_query, rows * d.features, b.grad_query.dtype, Tensor::kResult},
      {"args.grad_key", &a.grad_key, keys * d.features, b.grad_key.dtype, Tensor::kResult},
      {"args.grad_value", &a.grad_value, keys * d.value_features, b.grad_value.dtype,
       Tensor::kResult},
      {"args.grad_bias", &a.grad_bias, biases, or_real(b.grad_bias.dtype, real), Tensor::kResult},
      {"args.grad_sinks", &a.grad_sinks, d.query_heads, real, Tensor::kResult},
      {"args.grad_alibi_slopes", &a.grad_alibi_slopes, d.query_heads, real, Tensor::kResult},
      {"args.grad_scale", &a.grad_scale, 1, real, Tensor::kResult},
      {"args.grad_temperature", &a.grad_temperature, 1, real, Tensor::kResult},
  };
  all.insert(all.begin(), std::begin(own), std::end(own));
  return all;
}

std::vector<Tensor> tensors_of(BlockForm& f) {
  const heed_attention_desc& d = f.attention;
  const heed_multihead_desc& b = f.desc;
  heed_multihead_args& a = f.args;
  const std::uint32_t real = real_of(b.input_query.dtype);
  const std::uint32_t bias = or_real(b.bias_dtype, real);
  const std::int64_t features = d.query_heads * d.features;
  const std::int64_t key_features = d.key_heads * d.features;
  const std::int64_t key_values = d.key_heads * d.value_features;
  const std::int64_t values = d.query_heads * d.value_features;
  const std::int64_t width_out = b.width_out > 0 ? b.width_out : d.value_features;
  std::vector<Tensor> all = options("args.attention->", d, f.inner, real);
  const Tensor own[] = {
      {"args.input_query", &a.input_query, query_rows(d) * b.width_query, b.input_query.dtype},
      {"args.input_key", &a.input_key, key_rows(d) * b.width_key, b.input_key.dtype},
      {"args.w_query", &a.w_query, b.width_query * features, or_real(b.w_query.dtype, real)},
      {"args.w_key", &a.w_key, b.width_key * key_features, or_real(b.w_key.dtype, real)},
      {"args.w_value", &a.w_value, b.width_key * key_values, or_real(b.w_value.dtype, real)},
      {"args.w_out", &a.w_out, values * width_out, or_real(b.w_out.dtype, real)},
      {"args.b_query", &a.b_query, features, bias},
      {"args.b_key", &a.b_key, key_features, bias},
      {"args.b_value", &a.b_value, key_values, bias},
      {"args.b_out", &a.b_out, width_out, bias},
      {"args.head_weights", &a.head_weights, d.query_heads, real},
      {"args.out", &a.out, query_rows(d) * width_out, b.out.dtype, Tensor::kResult},
  };
  all.insert(all.begin(), std::begin(own), std::end(own));
  return all;
}

std::vector<Tensor> tensors_of(BlockBackwardForm& f) {
  const heed_attention_desc& d = f.attention;
  const heed_multihead_desc& b = f.block.desc;
  const heed_multihead_backward_desc& g = f.desc;
  heed_multihead_backward_args& a = f.args;
  const std::uint32_t real = real_of(b.input_query.dtype);
  const std::uint32_t bias = or_real(g.grad_b_dtype, real);
  const std::int64_t features = d.query_heads * d.features;
  const std::int64_t key_features = d.key_heads * d.features;
  const std::int64_t key_values = d.key_heads * d.value_features;
  const std::int64_t values = d.query_heads * d.value_features;
  const std::int64_t width_out = b.width_out > 0 ? b.width_out : d.value_features;
  std::vector<Tensor> all = tensors_of(f.block);
  for (Tensor& tensor : all) tensor.name.replace(0, 5, "args.block->");
  const Tensor own[] = {
      {"args.grad_out", &a.grad_out, query_rows(d) * width_out, or_real(g.grad_out.dtype, real)},
      {"args.grad_lse", &a.grad_lse, query_rows(d) * d.query_heads,
       or_real(g.grad_lse.dtype, real)},
      {"args.grad_input_query", &a.grad_input_query, query_rows(d) * b.width_query,
       or_real(g.grad_input_query.dtype, real), Tensor::kResult},
      {"args.grad_input_key", &a.grad_input_key, key_rows(d) * b.width_key,
       or_real(g.grad_input_key.dtype, real), Tensor::kResult},
      {"args.grad_w_query", &a.grad_w_query, b.width_query * features,
       or_real(g.grad_w_query.dtype, real), Tensor::kResult},
      {"args.grad_w_key", &a.grad_w_key, b.width_key * key_features,
       or_real(g.grad_w_key.dtype, real), Tensor::kResult},
      {"args.grad_w_value", &a.grad_w_value, b.width_key * key_values,
       or_real(g.grad_w_value.dtype, real), Tensor::kResult},
      {"args.grad_w_out", &a.grad_w_out, values * width_out, or_real(g.grad_w_out.dtype, real),
       Tensor::kResult},
      {"args.grad_b_query", &a.grad_b_query, features, bias, Tensor::kResult},
      {"args.grad_b_key", &a.grad_b_key, key_features, bias, Tensor::kResult},
      {"args.grad_b_value", &a.grad_b_value, key_values, bias, Tensor::kResult},
      {"args.grad_b_out", &a.grad_b_out, width_out, bias, Tensor::kResult},
      {"args.grad_head_weights", &a.grad_head_weights, d.query_heads, real, Tensor::kResult},
      {"args.grad_bias", &a.grad_bias, d.batch * d.query_heads * d.query_length * d.key_length,
       or_real(g.grad_bias.dtype, real), Tensor::kResult},
      {"args.grad_sinks", &a.grad_sinks, d.query_heads, real, Tensor::kResult},
      {"args.grad_alibi_slopes", &a.grad_alibi_slopes, d.query_heads, real, Tensor::kResult},
      {"args.grad_scale", &a.grad_scale, 1, real, Tensor::kResult},
      {"args.grad_temperature", &a.grad_temperature, 1, real, Tensor::kResult},
  };
  all.insert(all.end(), std::begin(own), std::end(own));
  return all;
}

std::vector<Tensor> tensors_of(GraphForm& f) {
  const heed_graph_attention_desc& d = f.desc;
  heed_graph_attention_args& a = f.args;
  const std::int64_t nodes = f.graph.desc.nodes;
  const std::int64_t edges = f.graph.desc.edges;
  const std::int64_t in = (d.inputs == HEED_GRAPH_PER_NODE ? nodes : 1) * d.width;
  const std::int64_t features = d.heads * d.features;
  const std::int64_t values = d.heads * d.value_features;
  const bool projected = d.inputs == HEED_GRAPH_PROJECTED;
  const std::uint32_t real = real_of(projected ? d.query.dtype : d.data.dtype);
  const std::uint32_t bias = or_real(d.bias_dtype, real);
  return {
      {"args.query", &a.query, nodes * features, d.query.dtype},
      {"args.key", &a.key, nodes * features, d.key.dtype},
      {"args.value", &a.value, nodes * values, d.value.dtype},
      {"args.data", &a.data, nodes * d.width, d.data.dtype},
      {"args.w_query", &a.w_query, in * features, or_real(d.w_query.dtype, real)},
      {"args.w_key", &a.w_key, in * features, or_real(d.w_key.dtype, real)},
      {"args.w_value", &a.w_value, in * values, or_real(d.w_value.dtype, real)},
      {"args.b_query", &a.b_query, features, bias},
      {"args.b_key", &a.b_key, features, bias},
      {"args.b_value", &a.b_value, values, bias},
      {"args.edge_data", &a.edge_data, edges * d.edge_width, d.edge_data.dtype},
      {"args.w_edge_key", &a.w_edge_key, d.edge_width * features,
       or_real(d.w_edge_key.dtype, real)},
      {"args.w_edge_value", &a.w_edge_value, d.edge_width * values,
       or_real(d.w_edge_value.dtype, real)},
      {"args.edge_bias", &a.edge_bias, edges * d.heads, or_real(d.edge_bias.dtype, real)},
      {"args.head_weights", &a.head_weights, d.heads, real},
      {"args.out", &a.out, nodes * (d.combine == HEED_COMBINE_CONCAT ? values : d.value_features),
       d.out.dtype, Tensor::kResult},
      {"args.lse", &a.lse, nodes * d.heads, or_real(d.lse.dtype, real), Tensor::kResult},
      {"args.weights", &a.weights, edges * d.heads, or_real(d.weights.dtype, real),
       Tensor::kResult},
  };
}

}  // namespace api_test
