// heed.attention and its gradients.
#include <utility>

#include "api/python/module/bind.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/errors.hpp"
#include "api/python/module/gradients.hpp"
#include "api/python/module/outputs.hpp"
#include "api/python/module/plan.hpp"

namespace heed::python {

// ---- heed.attention ----
namespace {

nb::object attention(nb::handle query, nb::handle key, nb::handle value, nb::handle out,
                     nb::handle context, nb::handle given) {
  const Options options = read_options("attention", given);
  Call call;
  read_lengths(call, options);
  read_tensors(call, query, key, value, options);
  read_scores(call, options);
  const Outputs outputs = make_outputs(call, options, out.is_none() ? nb::handle() : out);
  const HeldContext held = hold_context(context);
  check(without_gil(flops_of(call.desc), call.score_function,
                    [&] { return heed_attention(held.context, &call.desc, &call.args); }));
  call.score_function.raise();
  return outputs.result(call.kind, call.out_given, query);
}

}  // namespace

void bind_attention(nb::module_& module) {
  internal(module,
           "def attention(query: object, key: object, value: object, out: object, context: "
           "Context | None, options: object) -> typing.Any",
           &attention);
}

// ---- heed.attention_backward ----

namespace {

/// The axes of `full` along which `of` has one element, or which it lacks, and full has others.
std::vector<int> repeated_axes(const Form& of, const Shape& full) {
  std::vector<int> axes;
  for (int axis = 0; axis < full.axes(); ++axis)
    if (of.size(full.axes() - axis) != full.sizes[static_cast<std::size_t>(axis)])
      axes.push_back(axis);
  return axes;
}

/// Of query, key or value; of packed rows, some may belong to no sequence, and stay 0.
Gradient of_rows(const GradientMaker& make, const char* name, nb::handle wanted, const Form& of,
                 const Shape& full, bool packed, heed_layout& layout, void*& data) {
  Array array;
  Gradient gradient = make.of_tensor(name, wanted, of, array, packed);
  if (!gradient.object.is_valid()) return gradient;
  gradient.summed = repeated_axes(of, full);
  if (!gradient.summed.empty()) {
    // In the arithmetic's type, so that sums are rounded once.
    gradient.full = make_array(array.kind, make.real(), full.sizes.data(), full.axes(),
                               make.accumulate || packed);
    gradient.accumulate = make.accumulate;
    array.form = contiguous_form(make.real(), full.sizes.data(), full.axes());
    array.data = gradient.full.data;
  }
  layout = layout_of(array.form, packed);
  data = address_of(array);
  return gradient;
}

}  // namespace

GradientMaker AttentionGradients::maker(const Call& call, nb::handle accumulate,
                                        heed_attention_backward_desc& desc) {
  desc.accumulate = flag("accumulate", accumulate) ? 1 : 0;
  return {call.kind, "query", call.out_element, desc.accumulate != 0};
}

/// What the forward call gave, and its gradients.
AttentionGradients::Results AttentionGradients::read_results(Call& call, const GradientMaker& make,
                                                             const GivenResults& given,
                                                             heed_attention_backward_desc& desc,
                                                             heed_attention_backward_args& args) {
  Results results;
  results.out = read_like_out(make, "out", given.out, out_shape(call));
  call.desc.out = layout_of(results.out.form, call.packed_queries());
  call.args.out = address_of(results.out);
  results.lse = read_like_lse("lse", given.lse, lse_shape(call));
  call.desc.lse = lse_layout(results.lse.form);
  call.args.lse = address_of(results.lse);
  results.grad_out = read_like_out(make, "grad_out", given.grad_out, out_shape(call));
  desc.grad_out = layout_of(results.grad_out.form, call.packed_queries());
  args.grad_out = address_of(results.grad_out);
  if (!given.grad_lse.is_none()) {
    results.grad_lse = read_like_lse("grad_lse", given.grad_lse, lse_shape(call));
    desc.grad_lse = lse_layout(results.grad_lse.form);
    args.grad_lse = address_of(results.grad_lse);
  }
  return results;
}

AttentionGradients::RowGradients AttentionGradients::of_all_rows(
    const GradientMaker& make, const Call& call, const nb::tuple& wanted,
    heed_attention_backward_desc& desc, heed_attention_backward_args& args) {
  const heed_attention_desc& forward = call.desc;
  const bool packed_q = call.packed_queries();
  const bool packed_k = call.packed_keys();
  const auto full = [&](bool packed, std::int64_t heads, std::int64_t rows, std::int64_t features) {
    return packed ? Shape({rows, heads, features}, 0)
                  : Shape({forward.batch, heads, rows, features}, 0);
  };
  const std::int64_t keys = call.key.form.size(packed_k ? 3 : 2);
  RowGradients rows;
  rows.query = of_rows(make, "grad_query", wanted[0], call.query.form,
                       full(packed_q, forward.query_heads, call.rows, forward.features), packed_q,
                       desc.grad_query, args.grad_query);
  rows.key = of_rows(make, "grad_key", wanted[1], call.key.form,
                     full(packed_k, forward.key_heads, keys, forward.features), packed_k,
                     desc.grad_key, args.grad_key);
  rows.value = of_rows(make, "grad_value", wanted[2], call.value.form,
                       full(packed_k, forward.key_heads, keys, forward.value_features), packed_k,
                       desc.grad_value, args.grad_value);
  return rows;
}

AttentionGradients::AttentionGradients(Call& call, const GivenResults& given,
                                       heed_attention_backward_desc& desc,
                                       heed_attention_backward_args& args, std::int64_t all_keys)
    : make_(maker(call, given.accumulate, desc)),
      results_(read_results(call, make_, given, desc, args)),
      rows_(of_all_rows(make_, call, given.wanted, desc, args)) {
  desc.attention = &call.desc;
  args.attention = &call.args;
  const std::int64_t own = call.desc.key_length;
  if (all_keys >= 0) call.desc.key_length = all_keys;
  others_.emplace(make_, call, given.wanted, 3, desc, args);
  call.desc.key_length = own;
}

nb::object AttentionGradients::named(const Call& call, nb::handle query) const {
  nb::list found;
  for (const Gradient* gradient : {&rows_.query, &rows_.key, &rows_.value})
    found.append(gradient->result(call.kind, query));
  others_->append_to(found, call.kind, query);
  return names().gradients(*nb::tuple(found));
}

namespace {

void check_stored(const Call& call) {
  if (call.paged())
    refuse_unsupported("block_table is given; gradients of keys in pages are not supported");
  for (const auto& [name, array] : {std::pair{"key", &call.key}, std::pair{"value", &call.value}})
    if (!is_floating(array->form.element))
      refuse_unsupported("%s is %s; gradients of 8-bit numbers are not supported", name,
                         name_of(array->form.element));
}

nb::object attention_backward(nb::handle query, nb::handle key, nb::handle value, nb::handle out,
                              nb::handle lse, nb::handle grad_out, nb::handle grad_lse,
                              const nb::tuple& wanted, nb::handle accumulate,
                              nb::handle score_gradient, nb::handle context, nb::handle given) {
  const Options options = read_options("attention_backward", given);
  Call call;
  read_lengths(call, options);
  read_tensors(call, query, key, value, options);
  read_scores(call, options);
  check_differentiable("attention_backward", call, options);
  check_stored(call);
  heed_attention_backward_desc desc = HEED_ATTENTION_BACKWARD_DESC_INIT;
  heed_attention_backward_args args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  const AttentionGradients gradients(call, {out, lse, grad_out, grad_lse, wanted, accumulate}, desc,
                                     args);
  args.score_gradient = score_gradient_of(call, score_gradient);
  const HeldContext held = hold_context(context);
  constexpr double kProducts = 2.5;  // of the forward call's two
  check(without_gil(kProducts * flops_of(call.desc), call.score_function,
                    [&] { return heed_attention_backward(held.context, &desc, &args); }));
  call.score_function.raise();
  return gradients.named(call, query);
}

}  // namespace

void bind_backward(nb::module_& module) {
  internal(module,
           "def attention_backward(query: object, key: object, value: object, out: object, lse: "
           "object, grad_out: object, grad_lse: object, wanted: tuple[object, ...], accumulate: "
           "object, score_gradient: object, context: Context | None, options: object) -> "
           "typing.Any",
           &attention_backward);
}

}  // namespace heed::python
