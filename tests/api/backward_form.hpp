// Gradients of a problem with one of everything, to be made wrong in one way.
#pragma once

#include <functional>

#include "tests/api/bytes.hpp"
#include "tests/api/fields.hpp"
#include "tests/api/support.hpp"

namespace api_test {

/// Of [2, 4, 3, 4] queries, [2, 2, 5, 4] keys, values of 6 features.
struct BackwardForm {
  BackwardForm() {
    attention.batch = 2;
    attention.query_heads = 4;
    attention.key_heads = 2;
    attention.query_length = 3;
    attention.key_length = 5;
    attention.features = 4;
    attention.value_features = 6;
    attention.alignment = HEED_ALIGNMENT_BOTTOM_RIGHT;
    desc.attention = &attention;
    inner.query = query.at();
    inner.key = key.at();
    inner.value = value.at();
    inner.out = out.at();
    inner.lse = lse.at();
    inner.mask = static_cast<std::uint8_t*>(mask.at());
    inner.bias = bias.at();
    inner.key_lengths = key_lengths;
    inner.alibi_slopes = slopes.at();
    inner.sinks = sinks.at();
    args.attention = &inner;
    args.grad_out = grad_out.at();
    args.grad_lse = grad_lse.at();
    args.grad_query = grads[0].at();
    args.grad_key = grads[1].at();
    args.grad_value = grads[2].at();
    args.grad_bias = grads[3].at();
    args.grad_sinks = grads[4].at();
    args.grad_alibi_slopes = grads[5].at();
    args.grad_scale = grads[6].at();
    args.grad_temperature = grads[7].at();
  }
  BackwardForm(const BackwardForm&) = delete;  // its arguments point into it
  BackwardForm& operator=(const BackwardForm&) = delete;

  void pack_queries() {
    attention.packed_queries = 6;
    inner.cu_seqlens_q = cu_seqlens_q;
  }
  void pack_keys() {
    attention.packed_keys = 10;
    inner.cu_seqlens_k = cu_seqlens_k;
  }
  void all_float64() { all_are(HEED_DTYPE_F64); }
  void all_16_bits() {
    all_are(HEED_DTYPE_F16);
    attention.bias.dtype = desc.grad_bias.dtype = HEED_DTYPE_BF16;
  }
  /// A score function that does nothing, and its derivative.
  void call_functions() {
    inner.score_function = [](void*, const heed_score_tile*) {};
    args.score_gradient = [](void*, const heed_score_tile*, void*) {};
  }

  bool outputs_untouched() const {
    return std::all_of(std::begin(grads), std::end(grads),
                       [](const Bytes& grad) { return grad.all_are(kPattern); });
  }

  heed_attention_desc attention = HEED_ATTENTION_DESC_INIT;
  heed_attention_backward_desc desc = HEED_ATTENTION_BACKWARD_DESC_INIT;
  heed_attention_args inner = HEED_ATTENTION_ARGS_INIT;
  heed_attention_backward_args args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  Bytes query, key, value, out, lse, mask{1}, bias, slopes, sinks, grad_out, grad_lse;
  /// In the order of the arguments.
  Bytes grads[8] = {Bytes(kPattern), Bytes(kPattern), Bytes(kPattern), Bytes(kPattern),
                    Bytes(kPattern), Bytes(kPattern), Bytes(kPattern), Bytes(kPattern)};
  std::int32_t key_lengths[2] = {5, 2};
  std::int32_t cu_seqlens_q[3] = {0, 3, 5};
  std::int32_t cu_seqlens_k[3] = {0, 5, 10};

 private:
  void all_are(std::uint32_t dtype) {
    for (heed_layout* const of :
         {&attention.query, &attention.key, &attention.value, &attention.out, &desc.grad_out,
          &desc.grad_query, &desc.grad_key, &desc.grad_value})
      of->dtype = dtype;
  }
};

using BackwardChange = std::function<void(BackwardForm&)>;

inline Fields fields_of(BackwardForm& form) {
  Fields fields;
  heed_attention_backward_desc& d = form.desc;
  heed_attention_backward_args& a = form.args;
  heed_attention_desc& inner = form.attention;
  fields.in("desc.")("accumulate", d.accumulate)("grad_out", d.grad_out)("grad_lse", d.grad_lse)(
      "grad_query", d.grad_query)("grad_key", d.grad_key)("grad_value", d.grad_value)("grad_bias",
                                                                                      d.grad_bias);
  add(fields.in("desc.attention: desc."), inner);
  fields("query", inner.query)("key", inner.key)("value", inner.value)("out", inner.out);
  fields.in("args.")("reserved", a.reserved)("grad_out", a.grad_out)("grad_lse", a.grad_lse)(
      "grad_query", a.grad_query)("grad_key", a.grad_key)("grad_value", a.grad_value)(
      "grad_bias", a.grad_bias)("grad_sinks", a.grad_sinks)(
      "grad_alibi_slopes", a.grad_alibi_slopes)("grad_scale", a.grad_scale)("grad_temperature",
                                                                            a.grad_temperature);
  add(fields.in("args.attention: args."), form.inner);
  fields("query", form.inner.query)("key", form.inner.key)("value", form.inner.value)(
      "out", form.inner.out)("key_lengths", form.key_lengths);
  return fields;
}

}  // namespace api_test
