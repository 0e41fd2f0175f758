// Options that are arrays: masks and biases, numbers per head, lengths, scales of 8-bit keys.
#include "api/python/module/call.hpp"

namespace heed::python {
namespace {

void set_bias(Call& call, const char* name, Array array) {
  call.desc.bias = score_layout(name, array.form, call.desc);
  call.args.bias = address_of(array);
  call.bias = std::move(array);
}

void read_masks(Call& call, const Options& options) {
  if (options.attn_mask.is_valid()) {
    Array mask = read_array("attn_mask", options.attn_mask);
    if (mask.form.element == Element::kBool) {
      call.desc.mask = score_layout("attn_mask", mask.form, call.desc);
      call.args.mask = static_cast<const std::uint8_t*>(address_of(mask));
      call.attn_mask = std::move(mask);
    } else if (!is_floating(mask.form.element)) {
      refuse("attn_mask is %s; it must be bool (True attends), or floating (added to scores)",
             name_of(mask.form.element));
    } else if (options.bias.is_valid()) {
      refuse("attn_mask is %s, a bias, but bias is given too: add them",
             name_of(mask.form.element));
    } else {
      set_bias(call, "attn_mask", std::move(mask));
    }
  }
  if (options.bias.is_valid()) {
    Array bias = read_array("bias", options.bias);
    check_floating("bias", bias.form);
    set_bias(call, "bias", std::move(bias));
  }
}

void read_key_lengths(Call& call, nb::handle from) {
  if (!from.is_valid()) return;
  call.key_lengths = read_vector<std::int32_t>("key_lengths", from);
  const Vector<std::int32_t>& lengths = call.key_lengths;
  if (lengths.count != call.desc.batch)
    refuse("key_lengths has %lld numbers; it must have one for each of the %lld sequences",
           static_cast<long long>(lengths.count), static_cast<long long>(call.desc.batch));
  call.args.key_lengths = lengths.data;
}

/// What 8-bit elements are to be multiplied with: one number per row, or for E4M3 one for all.
void read_scales(const char* name, const char* of, const Array& tensor, nb::handle from,
                 bool packed, Array& per_row, Vector<float>& single, heed_layout& layout,
                 const float*& pointer) {
  const bool int8 = tensor.form.element == Element::kI8;
  if (!int8 && tensor.form.element != Element::kF8E4M3) {
    if (from.is_valid())
      refuse("%s is given, but %s is %s; scales belong to int8 and float8_e4m3fn", name, of,
             name_of(tensor.form.element));
    return;
  }
  if (!from.is_valid())
    refuse("%s is %s, so %s must be given: %s", of, name_of(tensor.form.element), name,
           int8 ? "float32, the shape of rows" : "one number");
  if (int8) {
    per_row = read_array(name, from);
    Form rows = tensor.form;  // with features of one element, so that axes are the tensor's
    --rows.axes;
    Form& given = per_row.form;
    if (given.element != Element::kF32 || given.axes != rows.axes ||
        !std::equal(rows.shape, rows.shape + rows.axes, given.shape))
      refuse("%s is %s; it must be float32 %s, a number for each row of %s", name,
             text(given).c_str(), shape_text(rows.shape, rows.axes).c_str(), of);
    Form as_tensor = given;
    as_tensor.shape[as_tensor.axes] = 1;
    as_tensor.strides[as_tensor.axes++] = 0;
    layout = layout_of(as_tensor, packed);
    pointer = static_cast<const float*>(address_of(per_row));
    return;
  }
  single.copy = {real<float>(name, from)};
  single.data = pointer = single.copy.data();
}

/// Combinations that C refuses too, in its own words.
void check_combinations(const Call& call, const Options& options, bool whole) {
  const heed_attention_desc& desc = call.desc;
  const bool bounded = desc.window != 0 && (desc.window_left >= 0 || desc.window_right >= 0);
  const bool placed = desc.causal != HEED_CAUSAL_NONE || desc.alignment != HEED_ALIGNMENT_DEFAULT;
  const bool measures = bounded || call.args.alibi_slopes != nullptr;
  if (whole && measures && !placed && desc.query_length != desc.key_length)
    refuse(
        "%s given with %lld query rows and %lld keys: say by alignment, \"top_left\", "
        "\"bottom_right\" or an int, or by causal, at which key the rows stand",
        bounded ? "window is" : "alibi_slopes are", static_cast<long long>(desc.query_length),
        static_cast<long long>(desc.key_length));
  if (desc.hard == 0) return;
  const char* denominator =
      options.temperature.is_valid()                                            ? "temperature"
      : options.sinks.is_valid()                                                ? "sinks"
      : options.return_lse.is_valid() && flag("return_lse", options.return_lse) ? "return_lse"
                                                                                : nullptr;
  if (denominator != nullptr)
    refuse("%s is given with hard, which has no denominator", denominator);
}

}  // namespace

heed_score_layout score_layout(const char* name, const Form& form,
                               const heed_attention_desc& desc) {
  const std::int64_t sizes[4] = {desc.batch, desc.query_heads, desc.query_length, desc.key_length};
  heed_score_layout layout = HEED_SCORE_LAYOUT_INIT;
  for (int axis = 0; axis < 4; ++axis) {
    const std::int64_t size = form.size(4 - axis);
    if (size != sizes[axis] && size != 1)
      refuse("%s has shape %s; it must broadcast to %s: batch, heads, rows, keys", name,
             shape_text(form.shape, form.axes).c_str(), shape_text(sizes, 4).c_str());
  }
  layout.dtype = form.element == Element::kBool ? HEED_DTYPE_DEFAULT : dtype_of(form.element);
  layout.reserved = HEED_STRIDES_EXPLICIT;
  layout.batch = form.size(4), layout.stride_batch = form.stride(4);
  layout.heads = form.size(3), layout.stride_head = form.stride(3);
  layout.rows = form.size(2), layout.stride_row = form.stride(2);
  layout.keys = form.size(1), layout.stride_key = form.stride(1);
  return layout;
}

const void* read_reals(const char* name, nb::handle from, bool float64, std::int64_t heads,
                       Reals& reals) {
  if (!from.is_valid()) return nullptr;
  const auto read = [&](auto& vector) -> const void* {
    vector =
        read_vector<std::remove_const_t<std::remove_pointer_t<decltype(vector.data)>>>(name, from);
    if (vector.count != heads)
      refuse("%s has %lld numbers; it must have one for each of the %lld query heads", name,
             static_cast<long long>(vector.count), static_cast<long long>(heads));
    return vector.data;
  };
  return float64 ? read(reals.doubles) : read(reals.singles);
}

void read_scores(Call& call, const Options& options, bool whole) {
  heed_attention_desc& desc = call.desc;
  heed_attention_args& args = call.args;
  read_choices(desc, options);
  read_masks(call, options);
  args.alibi_slopes = read_reals("alibi_slopes", options.alibi_slopes, call.float64,
                                 desc.query_heads, call.alibi_slopes);
  args.sinks = read_reals("sinks", options.sinks, call.float64, desc.query_heads, call.sinks);
  read_key_lengths(call, options.key_lengths);
  read_scales("key_scales", "key", call.key, options.key_scales, call.packed_keys(),
              call.key_scales, call.key_scale, desc.key_scales, args.key_scales);
  read_scales("value_scales", "value", call.value, options.value_scales, call.packed_keys(),
              call.value_scales, call.value_scale, desc.value_scales, args.value_scales);
  check_combinations(call, options, whole);
  if (options.score_function.is_valid()) {
    call.score_function = read_score_function(options.score_function);
    args.score_function = call.score_function.function;
    args.score_user = call.score_function.user;
  }
  if (options.weight_rows.is_valid()) {
    if (desc.weights_point == HEED_WEIGHTS_NONE)
      refuse("weight_rows is given without return_weights");
    call.weight_rows = read_vector<std::int64_t>("weight_rows", options.weight_rows);
    if (call.weight_rows.count == 0) refuse("weight_rows is empty; None is all rows");
    desc.weight_rows = call.weight_rows.count;
    args.weight_rows = call.weight_rows.data;
  }
}

}  // namespace heed::python
