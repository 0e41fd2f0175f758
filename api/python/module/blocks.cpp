#include "api/python/module/blocks.hpp"

#include "api/python/module/combine.hpp"

namespace heed::python {

const NamedMatrix kBlockMatrices[BlockCall::kMatrices] = {
    {"w_query", "b_query"}, {"w_key", "b_key"}, {"w_value", "b_value"}, {"w_out", "b_out"}};

heed_layout rows_layout(const Form& form) {
  heed_layout layout = HEED_LAYOUT_INIT;
  layout.dtype = dtype_of(form.element);
  layout.reserved = HEED_STRIDES_EXPLICIT;
  layout.stride_batch = form.stride(3);
  layout.stride_row = form.stride(2);
  layout.stride_feature = form.stride(1);
  return layout;
}

Array read_input(const char* name, nb::handle from, bool packed) {
  Array input = read_array(name, from);
  const Form& form = input.form;
  if (packed ? form.axes != 2 : form.axes != 2 && form.axes != 3)
    refuse("%s has shape %s; it must have axes %s", name, shape_text(form.shape, form.axes).c_str(),
           packed ? "[rows, width], as cu_seqlens are given"
                  : "[batch, rows, width], the first of which may lack");
  check_floating(name, form);
  if (form.size(1) == 0) refuse("%s is %s; it must have features", name, text(form).c_str());
  return input;
}

namespace {

void read_inputs(BlockCall& call, const BlockArguments& arguments, const Options& options) {
  Call& attention = call.attention;
  read_lengths(attention, options);
  call.query = read_input("query", arguments.query, attention.packed_queries());
  const Form& query = call.query.form;
  const bool one = arguments.key.is_none();
  call.key = one ? call.query : read_input("key", arguments.key, attention.packed_keys());
  const Form& key = call.key.form;
  attention.kind = call.query.kind;
  attention.out_element = query.element;
  attention.float64 = query.element == Element::kF64;
  check_arithmetic("key", key, "query", attention.float64);
  if (!attention.packed_queries()) set_batch(attention, "query", query.size(3));
  if (!one && !attention.packed_keys()) set_batch(attention, "key", key.size(3));
  attention.axes = 1 + query.axes;
  set_query_rows(attention, query.size(2), options);
  set_key_rows(attention, key.size(2), options);
  call.desc.width_query = query.size(1);
  call.desc.width_key = key.size(1);
  call.desc.input_query = rows_layout(query);
  call.desc.input_key = rows_layout(key);
  call.args.input_query = address_of(call.query);
  if (!one) call.args.input_key = address_of(call.key);
}

std::int64_t read_heads(const char* name, nb::handle from) {
  const std::int64_t heads = integer(name, from);
  if (heads < 1) refuse("%s is %lld; it must be at least 1", name, static_cast<long long>(heads));
  return heads;
}

void read_matrices(BlockCall& call, const BlockArguments& arguments) {
  const bool tensor = call.desc.combine == HEED_COMBINE_TENSOR;
  const bool with_out = tensor || call.desc.combine == HEED_COMBINE_CONCAT;
  for (int i = 0; i < BlockCall::kMatrices; ++i) {
    const NamedMatrix& names = kBlockMatrices[i];
    const nb::handle from = arguments.matrices[i];
    const bool wanted = i != BlockCall::kOut || with_out;
    if (wanted && from.is_none())
      refuse_type("%s must be an array or heed.Weights, not None%s", names.name,
                  i == BlockCall::kOut ? "; only combine=\"tensor\" needs it" : "");
    if (!wanted && !from.is_none())
      refuse("%s is given, but combine is neither \"concat\" nor \"tensor\", so it must not be",
             names.name);
    Matrix& matrix = call.matrices[i];
    if (wanted) matrix = read_matrix(names.name, from, i == BlockCall::kOut && tensor ? 3 : 2);
    if (matrix.data != nullptr)
      check_arithmetic(names.name, matrix.array.form, "query", call.attention.float64);
  }
  call.desc.bias_dtype = read_biases(kBlockMatrices, call.matrices, BlockCall::kMatrices,
                                     arguments.biases, 0, call.biases);
}

void place_matrices(BlockCall& call) {
  const Matrix* const m = call.matrices;
  const Bias* const b = call.biases;
  heed_multihead_desc& desc = call.desc;
  heed_multihead_args& args = call.args;
  desc.w_query = m[BlockCall::kQuery].layout, args.w_query = m[BlockCall::kQuery].data;
  desc.w_key = m[BlockCall::kKey].layout, args.w_key = m[BlockCall::kKey].data;
  desc.w_value = m[BlockCall::kValue].layout, args.w_value = m[BlockCall::kValue].data;
  desc.w_out = m[BlockCall::kOut].layout, args.w_out = m[BlockCall::kOut].data;
  args.p_query = m[BlockCall::kQuery].prepared, args.b_query = b[BlockCall::kQuery].data;
  args.p_key = m[BlockCall::kKey].prepared, args.b_key = b[BlockCall::kKey].data;
  args.p_value = m[BlockCall::kValue].prepared, args.b_value = b[BlockCall::kValue].data;
  args.p_out = m[BlockCall::kOut].prepared, args.b_out = b[BlockCall::kOut].data;
}

void read_sizes(BlockCall& call, const BlockArguments& arguments) {
  heed_attention_desc& attention = call.attention.desc;
  const Matrix* const m = call.matrices;
  const nb::handle key_heads = arguments.settings[1];
  attention.query_heads = read_heads("heads", arguments.settings[0]);
  attention.key_heads =
      key_heads.is_none() ? attention.query_heads : read_heads("key_heads", key_heads);
  if (attention.query_heads % attention.key_heads != 0)
    refuse("heads is %lld and key_heads %lld; each key head must serve the same number of heads",
           static_cast<long long>(attention.query_heads),
           static_cast<long long>(attention.key_heads));
  const char* const source = arguments.key.is_none() ? "query" : "key";
  check_in("w_query", m[BlockCall::kQuery], "query", call.desc.width_query);
  check_in("w_key", m[BlockCall::kKey], source, call.desc.width_key);
  check_in("w_value", m[BlockCall::kValue], source, call.desc.width_key);
  attention.features = features_of("w_query", m[BlockCall::kQuery], attention.query_heads);
  check_columns("w_key", m[BlockCall::kKey], attention.key_heads, attention.features);
  attention.value_features = features_of("w_value", m[BlockCall::kValue], attention.key_heads);
  const Matrix& out = m[BlockCall::kOut];
  const Form& form = out.array.form;
  if (form.axes == 3 &&
      (form.size(3) != attention.query_heads || form.size(2) != attention.value_features))
    refuse("w_out is %s; it must be [%lld, %lld, out]: heads, features of a value",
           text(form).c_str(), static_cast<long long>(attention.query_heads),
           static_cast<long long>(attention.value_features));
  if (out.given())
    check_in("w_out", out, "the heads are wide", attention.query_heads * attention.value_features);
  const bool apart = call.desc.combine == HEED_COMBINE_HEADS;
  call.desc.width_out =
      out.given() ? out.out : (apart ? attention.query_heads : 1) * attention.value_features;
}

void make_out(BlockCall& call, nb::handle given) {
  Call& attention = call.attention;
  const Shape shape = call.out_shape();
  const std::int64_t* const sizes = shape.sizes.data();
  const int axes = shape.axes();
  attention.out_given = !given.is_none();
  if (attention.out_given) {
    attention.out = take_out(given, sizes, axes, "query", attention.out_element);
    call.outputs.out = nb::borrow(given);
    call.args.out = address_of(attention.out);
  } else {
    Made made =
        make_array(attention.kind, attention.out_element, sizes, axes, leaves_rows(attention));
    attention.out.form = contiguous_form(attention.out_element, sizes, axes);
    call.outputs.out = std::move(made.object);
    call.args.out = made.data;
  }
  call.desc.out = rows_layout(attention.out.form);
}

/// A block makes its keys itself. Of packed self-attention, sequences are said once.
Options own_options(const BlockArguments& arguments) {
  Options options = arguments.options;
  for (const auto& [name, given] :
       {std::pair{"block_table", options.block_table}, std::pair{"key_scales", options.key_scales},
        std::pair{"value_scales", options.value_scales}})
    if (given.is_valid())
      refuse_type("%s is given; a block makes its keys and values itself", name);
  if (arguments.key.is_none() && !options.cu_seqlens_k.is_valid()) {
    options.cu_seqlens_k = options.cu_seqlens_q;
    options.max_seqlen_k = options.max_seqlen_q;
  }
  if (arguments.key.is_none() && options.cu_seqlens_k.is_valid() &&
      !options.cu_seqlens_q.is_valid())
    refuse("cu_seqlens_k is given without key and cu_seqlens_q");
  return options;
}

}  // namespace

void BlockCall::read(const BlockArguments& arguments) {
  const Options options = own_options(arguments);
  read_inputs(*this, arguments, options);
  desc.combine = read_combine(arguments.settings[2], HEED_COMBINE_TENSOR);
  if (desc.combine == HEED_COMBINE_CONCAT && arguments.matrices[int{kOut}].is_none())
    desc.combine = HEED_COMBINE_HEADS;
  read_matrices(*this, arguments);
  read_sizes(*this, arguments);
  place_matrices(*this);
  args.head_weights = read_head_weights(desc.combine, arguments.settings[3], attention.float64,
                                        attention.desc.query_heads, head_weights);
  read_scores(attention, options);
  desc.attention = &attention.desc;
  args.attention = &attention.args;
}

void BlockCall::make_outputs(const BlockArguments& arguments) {
  make_out(*this, arguments.out);
  add_outputs_beside_out(attention, arguments.options, outputs);
}

Shape BlockCall::out_shape() const {
  return Shape({attention.desc.batch, query.form.size(2), desc.width_out}, 3 - query.form.axes);
}

double BlockCall::flops() const {
  const heed_attention_desc& a = attention.desc;
  const auto product = [](std::int64_t rows, const Matrix& matrix) {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(matrix.in) *
           static_cast<double>(matrix.out);
  };
  const std::int64_t rows = query.form.size(3) * query.form.size(2);
  const std::int64_t keys = key.form.size(3) * key.form.size(2);
  const double scores = 2.0 * static_cast<double>(a.query_heads * a.query_length) *
                        static_cast<double>(a.batch * a.key_length) *
                        static_cast<double>(a.features + a.value_features);
  return scores + product(rows, matrices[kQuery]) + product(keys, matrices[kKey]) +
         product(keys, matrices[kValue]) + product(rows, matrices[kOut]);
}

}  // namespace heed::python
