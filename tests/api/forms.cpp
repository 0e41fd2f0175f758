#include "tests/api/forms.hpp"

#include "tests/api/cache_forms.hpp"
#include "tests/api/other_forms.hpp"

namespace api_test {

using heed_test::kByte;

std::size_t Tensor::bytes() const {
  return static_cast<std::size_t>(elements) *
         static_cast<std::size_t>(heed_test::format_of(dtype).bytes);
}

void fill(const Tensor& tensor, void* memory, std::uint32_t seed) {
  std::int64_t i = 0;
  for (const float x : numbers(static_cast<std::size_t>(tensor.elements), seed))
    heed_test::store_bits(tensor.dtype, memory, i++,
                          heed_test::encode(tensor.dtype, tensor.dtype == kByte ? x > -1 : x));
}

std::array<std::int64_t*, 4> Tensor::strides() const {
  if (kind == 'L') {
    auto* const l = static_cast<heed_layout*>(at);
    return {&l->stride_batch, &l->stride_head, &l->stride_row, &l->stride_feature};
  }
  if (kind == 'S') {
    auto* const l = static_cast<heed_score_layout*>(at);
    return {&l->stride_batch, &l->stride_head, &l->stride_row, &l->stride_key};
  }
  auto* const l = static_cast<heed_matrix_layout*>(at);
  return {&l->stride_matrix, nullptr, &l->stride_in, &l->stride_out};
}

std::uint32_t& Tensor::reserved() const {
  if (kind == 'L') return static_cast<heed_layout*>(at)->reserved;
  if (kind == 'S') return static_cast<heed_score_layout*>(at)->reserved;
  return static_cast<heed_matrix_layout*>(at)->reserved;
}

namespace {

/// Sizes that were made wrong may overflow: their tensors are then refused, and nobody asks how
/// many elements they have.
std::int64_t product(std::initializer_list<std::int64_t> sizes) {
  std::uint64_t all = 1;
  for (const std::int64_t size : sizes) all *= static_cast<std::uint64_t>(size);
  return static_cast<std::int64_t>(all);
}
std::int64_t one_more(std::int64_t size) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(size) + 1);
}

char kind_of(const heed_layout&) { return 'L'; }
char kind_of(const heed_score_layout&) { return 'S'; }
char kind_of(const heed_matrix_layout&) { return 'M'; }

/// Adds tensors whose pointers are in one struct and whose layouts are in another.
struct Table {
  std::string args, desc;
  std::uint32_t real;  ///< the type of the arithmetic, which a type of 0 means
  std::vector<Tensor> all = {};

  /// Without a layout.
  template <class T>
  Tensor& add(const std::string& name, T*& field, Bytes* own, std::int64_t elements,
              std::uint32_t dtype, Tensor::Content content) {
    all.push_back({args + name, &field, elements, or_real(dtype), content, own});
    return all.back();
  }
  template <class T>
  Tensor& list(const char* name, T*& field, std::int64_t elements, std::uint32_t type) {
    return add(name, field, nullptr, elements, type, Tensor::kGiven);
  }
  template <class T>
  Tensor& plain(const char* name, T*& field, Bytes& own, std::int64_t elements,
                std::uint32_t dtype = 0) {
    return add(name, field, &own, elements, dtype,
               std::is_const_v<T> ? Tensor::kNumbers : Tensor::kResult);
  }
  template <class T, class Layout>
  Tensor& laid(const std::string& name, T*& field, Bytes& own, Layout& layout, const Axes& axes) {
    Tensor& tensor = add(name, field, &own, product({axes[0], axes[1], axes[2], axes[3]}),
                         layout.dtype, std::is_const_v<T> ? Tensor::kNumbers : Tensor::kResult);
    tensor.layout = desc + name;
    tensor.kind = kind_of(layout);
    tensor.at = &layout;
    tensor.axes = axes;
    return tensor;
  }
  void matrix(const std::string& name, const void*& field, Bytes& own,
              const heed_weights*& prepared, heed_matrix_layout& layout, const Axes& axes) {
    laid(name, field, own, layout, axes).prepared = &prepared;
  }
  /// The gradient of one of the tensors of another table.
  template <class T, class Layout>
  Tensor& like(const Table& of, const std::string& name, T*& field, Bytes& own, Layout& layout) {
    for (const Tensor& tensor : of.all) {
      if (tensor.name != of.args + name) continue;
      Tensor& gradient = laid("grad_" + name, field, own, layout, tensor.axes);
      gradient.rows_first = tensor.rows_first;
      gradient.headless = tensor.headless;
      break;
    }
    return all.back();
  }
  std::uint32_t or_real(std::uint32_t dtype) const {
    return dtype == HEED_DTYPE_DEFAULT ? real : dtype;
  }
  void append(std::vector<Tensor> more) { all.insert(all.end(), more.begin(), more.end()); }
};

std::uint32_t real_of(std::uint32_t dtype) {
  return dtype == HEED_DTYPE_F64 ? HEED_DTYPE_F64 : HEED_DTYPE_F32;
}
Axes rows_of(const heed_attention_desc& d, std::int64_t heads, std::int64_t features) {
  if (d.packed_queries > 0) return {1, heads, d.packed_queries, features};
  return {d.batch, heads, d.query_length, features};
}
Axes keys_of(const heed_attention_desc& d, std::int64_t heads, std::int64_t features) {
  if (d.packed_keys > 0) return {1, heads, d.packed_keys, features};
  return {d.batch, heads, d.key_length, features};
}
Axes scores_of(const heed_attention_desc& d) {
  return {d.batch, d.query_heads, d.query_length, d.key_length};
}

/// Of dense attention, and the same within a block.
void add_options(Table& t, heed_attention_desc& d, heed_attention_args& a, AttentionTensors& m) {
  const std::int64_t heads = d.query_heads;
  t.laid("mask", a.mask, m.mask, d.mask, scores_of(d)).dtype = kByte;
  t.laid("bias", a.bias, m.bias, d.bias, scores_of(d));
  t.list("key_lengths", a.key_lengths, d.batch, kI32);
  t.list("cu_seqlens_q", a.cu_seqlens_q, one_more(d.batch), kI32);
  t.list("cu_seqlens_k", a.cu_seqlens_k, one_more(d.batch), kI32);
  t.list("block_table", a.block_table, d.pages > 0 ? d.batch : 0, kI32);
  t.plain("alibi_slopes", a.alibi_slopes, m.slopes, heads);
  t.plain("sinks", a.sinks, m.sinks, heads);
  t.list("weight_rows", a.weight_rows, d.weight_rows, kI64);
  t.laid("lse", a.lse, m.lse, d.lse, rows_of(d, heads, 1));
  const std::int64_t weight_rows = d.weight_rows > 0 ? d.weight_rows : d.query_length;
  t.laid("weights", a.weights, m.weights, d.weights, {d.batch, heads, weight_rows, d.key_length});
  t.laid("column_sums", a.column_sums, m.column_sums, d.column_sums,
         {d.batch, heads, d.key_length, 1});
}

void add_attention(Table& t, heed_attention_desc& d, heed_attention_args& a, AttentionTensors& m) {
  const std::size_t first = t.all.size();
  t.laid("query", a.query, m.query, d.query, rows_of(d, d.query_heads, d.features));
  t.laid("key", a.key, m.key, d.key, keys_of(d, d.key_heads, d.features));
  t.laid("value", a.value, m.value, d.value, keys_of(d, d.key_heads, d.value_features));
  t.laid("out", a.out, m.out, d.out, rows_of(d, d.query_heads, d.value_features));
  for (std::size_t i = first; i < t.all.size(); ++i) {
    const bool of_keys = i == first + 1 || i == first + 2;
    t.all[i].needed = true;
    t.all[i].rows_first = (of_keys ? d.packed_keys : d.packed_queries) > 0;
  }
  add_options(t, d, a, m);
}

/// Of the gradients of attention's own inputs.
template <class Desc, class Args>
void add_gradients(Table& t, const heed_attention_desc& d, Desc& g, Args& a, Bytes* grads) {
  t.laid("grad_bias", a.grad_bias, grads[0], g.grad_bias, scores_of(d));
  t.plain("grad_sinks", a.grad_sinks, grads[1], d.query_heads);
  t.plain("grad_alibi_slopes", a.grad_alibi_slopes, grads[2], d.query_heads);
  t.plain("grad_scale", a.grad_scale, grads[3], 1);
  t.plain("grad_temperature", a.grad_temperature, grads[4], 1);
}

void add_block(Table& t, BlockForm& f) {
  heed_attention_desc& d = f.attention;
  heed_multihead_desc& b = f.desc;
  heed_multihead_args& a = f.args;
  const std::int64_t features = product({d.query_heads, d.features});
  const std::int64_t key_features = product({d.key_heads, d.features});
  const std::int64_t key_values = product({d.key_heads, d.value_features});
  const std::int64_t out = b.width_out > 0 ? b.width_out : d.value_features;
  const std::int64_t separate = b.combine == HEED_COMBINE_TENSOR ? d.query_heads : 1;
  Tensor* rows = &t.laid("input_query", a.input_query, f.input_query, b.input_query,
                         rows_of(d, 1, b.width_query));
  rows->needed = rows->headless = true;
  t.laid("input_key", a.input_key, f.input_key, b.input_key, keys_of(d, 1, b.width_key)).headless =
      true;
  t.matrix("w_query", a.w_query, f.w_query, a.p_query, b.w_query, {1, 1, b.width_query, features});
  t.matrix("w_key", a.w_key, f.w_key, a.p_key, b.w_key, {1, 1, b.width_key, key_features});
  t.matrix("w_value", a.w_value, f.w_value, a.p_value, b.w_value, {1, 1, b.width_key, key_values});
  t.matrix("w_out", a.w_out, f.w_out, a.p_out, b.w_out,
           {separate, 1, product({d.query_heads, d.value_features}) / separate, out});
  t.plain("b_query", a.b_query, f.b_query, features, b.bias_dtype);
  t.plain("b_key", a.b_key, f.b_key, key_features, b.bias_dtype);
  t.plain("b_value", a.b_value, f.b_value, key_values, b.bias_dtype);
  t.plain("b_out", a.b_out, f.b_out, out, b.bias_dtype);
  t.plain("head_weights", a.head_weights, f.head_weights, d.query_heads);
  rows = &t.laid("out", a.out, f.out, b.out, rows_of(d, 1, out));
  rows->needed = rows->headless = true;
  Table inside = {t.args + "attention: args.", t.desc + "attention: desc.", t.real};
  add_options(inside, d, f.inner, f);
  t.append(inside.all);
}

void add_layer(Table& t, GraphForm& f) {
  heed_graph_attention_desc& d = f.desc;
  heed_graph_attention_args& a = f.args;
  const std::size_t first = t.all.size();
  const std::int64_t nodes = f.graph.desc.nodes;
  const std::int64_t edges = f.graph.desc.edges;
  const std::int64_t own = d.inputs == HEED_GRAPH_PER_NODE ? nodes : 1;
  const std::int64_t features = product({d.heads, d.features});
  const std::int64_t values = product({d.heads, d.value_features});
  const std::int64_t heads_out = d.combine == HEED_COMBINE_CONCAT ? d.heads : 1;
  t.laid("query", a.query, f.query, d.query, {1, d.heads, nodes, d.features}).needed = true;
  t.laid("key", a.key, f.key, d.key, {1, d.heads, nodes, d.features}).needed = true;
  t.laid("value", a.value, f.value, d.value, {1, d.heads, nodes, d.value_features}).needed = true;
  t.laid("data", a.data, f.data, d.data, {1, 1, nodes, d.width}).needed = true;
  t.laid("edge_data", a.edge_data, f.edge_data, d.edge_data, {1, 1, edges, d.edge_width}).needed =
      true;
  t.laid("edge_bias", a.edge_bias, f.edge_bias, d.edge_bias, {1, d.heads, edges, 1});
  t.laid("out", a.out, f.out, d.out, {1, heads_out, nodes, d.value_features}).needed = true;
  t.laid("lse", a.lse, f.lse, d.lse, {1, d.heads, nodes, 1});
  t.laid("weights", a.weights, f.weights, d.weights, {1, d.heads, edges, 1});
  for (std::size_t i = first; i < t.all.size(); ++i) t.all[i].rows_first = true;
  t.matrix("w_query", a.w_query, f.w_query, a.p_query, d.w_query, {own, 1, d.width, features});
  t.matrix("w_key", a.w_key, f.w_key, a.p_key, d.w_key, {own, 1, d.width, features});
  t.matrix("w_value", a.w_value, f.w_value, a.p_value, d.w_value, {own, 1, d.width, values});
  t.laid("w_edge_key", a.w_edge_key, f.w_edge_key, d.w_edge_key, {1, 1, d.edge_width, features});
  t.laid("w_edge_value", a.w_edge_value, f.w_edge_value, d.w_edge_value,
         {1, 1, d.edge_width, values});
  t.plain("b_query", a.b_query, f.b_query, features, d.bias_dtype);
  t.plain("b_key", a.b_key, f.b_key, features, d.bias_dtype);
  t.plain("b_value", a.b_value, f.b_value, values, d.bias_dtype);
  t.plain("head_weights", a.head_weights, f.head_weights, d.heads);
}

std::uint32_t real_of(const GraphForm& f) {
  return real_of(f.desc.inputs == HEED_GRAPH_PROJECTED ? f.desc.query.dtype : f.desc.data.dtype);
}

}  // namespace

std::vector<Tensor> tensors_of(Form& f) {
  heed_attention_desc& d = f.desc;
  Table t = {"args.", "desc.", real_of(d.query.dtype)};
  add_attention(t, d, f.args, f);
  const auto scales = [&](const char* name, const float*& field, Bytes& own, heed_layout& layout,
                          std::uint32_t of) {
    if (of == HEED_DTYPE_I8)
      t.laid(name, field, own, layout, keys_of(d, d.key_heads, 1)).dtype = HEED_DTYPE_F32;
    else
      t.plain(name, field, own, 1, HEED_DTYPE_F32);
  };
  scales("key_scales", f.args.key_scales, f.key_scales, d.key_scales, d.key.dtype);
  scales("value_scales", f.args.value_scales, f.value_scales, d.value_scales, d.value.dtype);
  return t.all;
}

std::vector<Tensor> tensors_of(BackwardForm& f) {
  heed_attention_desc& d = f.attention;
  heed_attention_backward_desc& g = f.desc;
  heed_attention_backward_args& a = f.args;
  const std::uint32_t real = real_of(d.query.dtype);
  Table of = {"args.attention: args.", "desc.attention: desc.", real};
  add_attention(of, d, f.inner, f);
  for (Tensor& tensor : of.all)  // which gradients read
    if (is_one_of(tensor.name, {"out", "lse"})) tensor.content = Tensor::kNumbers;
  Table t = {"args.", "desc.", real, of.all};
  t.like(of, "out", a.grad_out, f.grad_out, g.grad_out).needed = true;
  t.like(of, "lse", a.grad_lse, f.grad_lse, g.grad_lse);
  t.like(of, "query", a.grad_query, f.grads[5], g.grad_query);
  t.like(of, "key", a.grad_key, f.grads[6], g.grad_key);
  t.like(of, "value", a.grad_value, f.grads[7], g.grad_value);
  add_gradients(t, d, g, a, f.grads);
  return t.all;
}

std::vector<Tensor> tensors_of(BlockForm& f) {
  Table t = {"args.", "desc.", real_of(f.desc.input_query.dtype)};
  add_block(t, f);
  return t.all;
}

std::vector<Tensor> tensors_of(BlockBackwardForm& f) {
  const heed_attention_desc& d = f.attention;
  const heed_multihead_desc& b = f.block.desc;
  heed_multihead_backward_desc& g = f.desc;
  heed_multihead_backward_args& a = f.args;
  Table of = {"args.block: args.", "desc.block: desc.", real_of(b.input_query.dtype)};
  add_block(of, f.block);
  Table t = {"args.", "desc.", of.real, of.all};
  t.like(of, "out", a.grad_out, f.grad_out, g.grad_out).needed = true;
  t.laid("grad_lse", a.grad_lse, f.grad_lse, g.grad_lse, rows_of(d, d.query_heads, 1));
  t.like(of, "input_query", a.grad_input_query, f.grads[5], g.grad_input_query);
  t.like(of, "input_key", a.grad_input_key, f.grads[6], g.grad_input_key);
  t.like(of, "w_query", a.grad_w_query, f.grads[7], g.grad_w_query);
  t.like(of, "w_key", a.grad_w_key, f.grads[8], g.grad_w_key);
  t.like(of, "w_value", a.grad_w_value, f.grads[9], g.grad_w_value);
  const std::int64_t width_out =
      t.like(of, "w_out", a.grad_w_out, f.grads[10], g.grad_w_out).axes[3];
  t.plain("grad_b_query", a.grad_b_query, f.grads[11], product({d.query_heads, d.features}),
          g.grad_b_dtype);
  t.plain("grad_b_key", a.grad_b_key, f.grads[12], product({d.key_heads, d.features}),
          g.grad_b_dtype);
  t.plain("grad_b_value", a.grad_b_value, f.grads[13], product({d.key_heads, d.value_features}),
          g.grad_b_dtype);
  t.plain("grad_b_out", a.grad_b_out, f.grads[14], width_out, g.grad_b_dtype);
  t.plain("grad_head_weights", a.grad_head_weights, f.grads[15], d.query_heads);
  add_gradients(t, d, g, a, f.grads);
  return t.all;
}

std::vector<Tensor> tensors_of(SmallGraph& f) {
  const std::uint32_t type = f.desc.index_type == HEED_INDEX_I64 ? kI64 : kI32;
  Table t = {"desc.", "", type};
  t.list("sources", f.desc.sources, f.desc.edges, type);
  t.list("destinations", f.desc.destinations, f.desc.edges, type);
  t.list("offsets", f.desc.offsets, one_more(f.desc.nodes), type);
  return t.all;
}

std::vector<Tensor> tensors_of(GraphForm& f) {
  Table t = {"args.", "desc.", real_of(f)};
  add_layer(t, f);
  return t.all;
}

std::vector<Tensor> tensors_of(GraphBackwardForm& f) {
  heed_graph_attention_backward_desc& g = f.desc;
  heed_graph_attention_backward_args& a = f.args;
  Table of = {"args.attention: args.", "desc.attention: desc.", real_of(f.layer)};
  add_layer(of, f.layer);
  Table t = {"args.", "desc.", of.real, of.all};
  Bytes* grad = f.grads;
  t.like(of, "out", a.grad_out, f.grad_out, g.grad_out).needed = true;
  t.like(of, "lse", a.grad_lse, f.grad_lse, g.grad_lse);
  t.like(of, "query", a.grad_query, *grad++, g.grad_query);
  t.like(of, "key", a.grad_key, *grad++, g.grad_key);
  t.like(of, "value", a.grad_value, *grad++, g.grad_value);
  t.like(of, "data", a.grad_data, *grad++, g.grad_data);
  t.like(of, "edge_data", a.grad_edge_data, *grad++, g.grad_edge_data);
  t.like(of, "edge_bias", a.grad_edge_bias, *grad++, g.grad_edge_bias);
  t.like(of, "w_query", a.grad_w_query, *grad++, g.grad_w_query);
  t.like(of, "w_key", a.grad_w_key, *grad++, g.grad_w_key);
  t.like(of, "w_value", a.grad_w_value, *grad++, g.grad_w_value);
  t.like(of, "w_edge_key", a.grad_w_edge_key, *grad++, g.grad_w_edge_key);
  t.like(of, "w_edge_value", a.grad_w_edge_value, *grad++, g.grad_w_edge_value);
  const heed_graph_attention_desc& d = f.layer.desc;
  t.plain("grad_b_query", a.grad_b_query, *grad++, product({d.heads, d.features}));
  t.plain("grad_b_key", a.grad_b_key, *grad++, product({d.heads, d.features}));
  t.plain("grad_b_value", a.grad_b_value, *grad++, product({d.heads, d.value_features}));
  t.plain("grad_head_weights", a.grad_head_weights, *grad++, d.heads);
  return t.all;
}

// ---- Operations without plans ----

std::vector<Tensor> tensors_of(MergeForm& f) {
  heed_merge_desc& d = f.desc;
  Table t = {"", "desc.", real_of(d.part_out.dtype)};
  const Axes rows = {d.batch, d.heads, d.rows, d.features};
  const Axes numbers = {d.batch, d.heads, d.rows, 1};
  for (int i = 0; i < 3; ++i) {
    const std::string part = "[" + std::to_string(i) + "]";
    t.laid("part_outs" + part, f.part_outs[i], f.part_out[i], d.part_out, rows).layout =
        "desc.part_out";
    t.laid("part_lses" + part, f.part_lses[i], f.part_lse[i], d.part_lse, numbers).layout =
        "desc.part_lse";
  }
  t.laid("out", f.to_out, f.out, d.out, rows);
  for (Tensor& tensor : t.all) tensor.needed = true;
  t.laid("lse", f.to_lse, f.lse, d.lse, numbers);
  return t.all;
}

std::vector<Tensor> tensors_of(RotateForm& f) {
  heed_rotate_desc& d = f.desc;
  Table t = {"", "desc.", HEED_DTYPE_F32};
  t.laid("from", f.from, f.in, d.from, {d.batch, d.heads, d.rows, d.features}).needed = true;
  t.laid("to", f.to, f.out, d.to, {d.batch, d.heads, d.rows, d.features}).needed = true;
  t.list("positions", f.positions, product({d.batch, d.rows}), kI64);
  t.list("desc.rotary.cosines", d.rotary.cosines, product({d.rotary.table_rows, 3}),
         HEED_DTYPE_F32);
  t.list("desc.rotary.sines", d.rotary.sines, product({d.rotary.table_rows, 3}), HEED_DTYPE_F32);
  return t.all;
}

std::vector<Tensor> tensors_of(MatrixForm& f) {
  heed_weights_desc& d = f.desc;
  Table t = {"", "desc.", real_of(d.arithmetic)};
  const std::int64_t matrices = d.matrices > 0 ? d.matrices : 1;
  Tensor& matrix = t.laid("matrix", f.matrix, f.numbers, d.layout, {matrices, 1, d.in, d.out});
  matrix.layout = "desc.layout";
  matrix.needed = true;
  t.plain("bias", f.bias, f.more, d.out, d.bias_dtype);
  return t.all;
}

std::vector<Tensor> tensors_of(ProjectForm& f) {
  heed_project_desc& d = f.desc;
  Table t = {"", "desc.", HEED_DTYPE_F32};
  t.laid("x", f.x, f.in, d.x, {d.batch, 1, d.rows, 5});
  t.laid("y", f.y, f.out, d.y, {d.batch, 1, d.rows, 6});
  for (Tensor& tensor : t.all) tensor.needed = tensor.headless = true;
  return t.all;
}

std::vector<Tensor> tensors_of(CacheForm& f) {
  heed_rotary& r = f.desc.rotary;
  Table t = {"desc.rotary.", "", HEED_DTYPE_F32};
  t.list("cosines", r.cosines, product({r.table_rows, 2}), HEED_DTYPE_F32);
  t.list("sines", r.sines, product({r.table_rows, 2}), HEED_DTYPE_F32);
  return t.all;
}

std::vector<Tensor> tensors_of(AppendForm& f) {
  heed_cache_append_desc& d = f.append;
  Table t = {"", "desc.", HEED_DTYPE_F32};
  t.laid("key", f.key, f.key_rows, d.key, {1, f.desc.key_heads, d.rows, f.desc.features});
  t.laid("value", f.value, f.value_rows, d.value,
         {1, f.desc.key_heads, d.rows, f.desc.value_features});
  for (Tensor& tensor : t.all) tensor.needed = tensor.rows_first = true;
  t.list("desc.positions", d.positions, d.rows, kI64);
  return t.all;
}

std::vector<Tensor> tensors_of(CacheAttentionForm& f) {
  heed_attention_desc& d = f.attention;
  Table t = {"args.", "desc.attention: desc.", HEED_DTYPE_F32};
  t.laid("query", f.args.query, f.query, d.query, rows_of(d, d.query_heads, f.desc.features));
  t.laid("out", f.args.out, f.out, d.out, rows_of(d, d.query_heads, f.desc.value_features));
  for (Tensor& tensor : t.all) tensor.needed = true;
  t.laid("lse", f.args.lse, f.lse, d.lse, rows_of(d, d.query_heads, 1));
  return t.all;
}

}  // namespace api_test
