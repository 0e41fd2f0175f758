// Gradients of a block with one of everything, to be made wrong in one way.
#pragma once

#include <cstring>
#include <functional>

#include "tests/api/blocks.hpp"

namespace api_test {

/// Of the block of BlockForm.
struct BlockBackwardForm {
  BlockBackwardForm() {
    attention.weights_point = HEED_WEIGHTS_NONE;
    attention.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    block.inner.weights = block.inner.lse = nullptr;
    block.inner.bias = bias.at();
    block.inner.alibi_slopes = slopes.at();
    block.inner.sinks = sinks.at();
    block.args.out = nullptr;
    desc.block = &block.desc;
    args.block = &block.args;
    args.grad_out = grad_out.at();
    args.grad_lse = grad_lse.at();
    void** const places[] = {
        &args.grad_input_query, &args.grad_input_key,    &args.grad_w_query, &args.grad_w_key,
        &args.grad_w_value,     &args.grad_b_query,      &args.grad_b_key,   &args.grad_b_value,
        &args.grad_bias,        &args.grad_sinks,        &args.grad_scale,   &args.grad_temperature,
        &args.grad_w_out,       &args.grad_alibi_slopes, &args.grad_b_out};
    for (std::size_t n = 0; n < std::size(places); ++n) *places[n] = grads[n].at();
  }
  BlockBackwardForm(const BlockBackwardForm&) = delete;  // its arguments point into it
  BlockBackwardForm& operator=(const BlockBackwardForm&) = delete;

  /// A combiner without a W_out.
  void reduce(heed_combine combine) {
    block.reduce(combine);
    args.grad_w_out = args.grad_b_out = nullptr;
    if (combine == HEED_COMBINE_WEIGHTED) args.grad_head_weights = grads[15].at();
  }
  void one_input() {
    block.desc.width_key = 7;
    attention.query_length = 5;
    block.args.input_key = args.grad_input_key = nullptr;
  }
  void all_float64() {
    block.all_float64();
    for (heed_layout* const of : {&desc.grad_out, &desc.grad_input_query, &desc.grad_input_key})
      of->dtype = HEED_DTYPE_F64;
    for (heed_matrix_layout* const of :
         {&desc.grad_w_query, &desc.grad_w_key, &desc.grad_w_value, &desc.grad_w_out})
      of->dtype = HEED_DTYPE_F64;
    desc.grad_b_dtype = HEED_DTYPE_F64;
  }
  bool outputs_untouched() const {
    return std::all_of(std::begin(grads), std::end(grads),
                       [](const Bytes& grad) { return grad.all_are(kPattern); });
  }

  BlockForm block;
  heed_attention_desc& attention = block.attention;
  heed_multihead_backward_desc desc = HEED_MULTIHEAD_BACKWARD_DESC_INIT;
  heed_multihead_backward_args args = HEED_MULTIHEAD_BACKWARD_ARGS_INIT;
  Bytes bias, slopes, sinks, grad_out, grad_lse;
  Bytes grads[16] = {Bytes(kPattern), Bytes(kPattern), Bytes(kPattern), Bytes(kPattern),
                     Bytes(kPattern), Bytes(kPattern), Bytes(kPattern), Bytes(kPattern),
                     Bytes(kPattern), Bytes(kPattern), Bytes(kPattern), Bytes(kPattern),
                     Bytes(kPattern), Bytes(kPattern), Bytes(kPattern), Bytes(kPattern)};
};

using BlockBackwardChange = std::function<void(BlockBackwardForm&)>;

inline Fields fields_of(BlockBackwardForm& form) {
  Fields fields;
  heed_multihead_backward_desc& d = form.desc;
  heed_multihead_backward_args& a = form.args;
  fields.in("desc.")("accumulate", d.accumulate)("grad_out", d.grad_out)("grad_lse", d.grad_lse)(
      "grad_input_query", d.grad_input_query)("grad_input_key", d.grad_input_key)(
      "grad_w_query", d.grad_w_query)("grad_w_key", d.grad_w_key)("grad_w_value", d.grad_w_value)(
      "grad_w_out", d.grad_w_out)("grad_bias", d.grad_bias)("grad_b_dtype", d.grad_b_dtype)(
      "reserved", d.reserved);
  fields.in("args.")("reserved", a.reserved)("grad_out", a.grad_out)("grad_lse", a.grad_lse)(
      "grad_input_query", a.grad_input_query)("grad_input_key", a.grad_input_key)(
      "grad_w_query", a.grad_w_query)("grad_w_key", a.grad_w_key)("grad_w_value", a.grad_w_value)(
      "grad_w_out", a.grad_w_out)("grad_b_query", a.grad_b_query)("grad_b_key", a.grad_b_key)(
      "grad_b_value", a.grad_b_value)("grad_b_out", a.grad_b_out)(
      "grad_head_weights", a.grad_head_weights)("grad_bias", a.grad_bias)(
      "grad_sinks", a.grad_sinks)("grad_alibi_slopes", a.grad_alibi_slopes)(
      "grad_scale", a.grad_scale)("grad_temperature", a.grad_temperature);
  add(fields, form.block, "desc.block: ", "args.block: ");
  return fields;
}

}  // namespace api_test
