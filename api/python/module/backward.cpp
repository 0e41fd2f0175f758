// heed.attention_backward.
#include <algorithm>
#include <utility>

#include "api/python/module/bind.hpp"
#include "api/python/module/context.hpp"
#include "api/python/module/gil.hpp"
#include "api/python/module/gradients.hpp"

namespace heed::python {
namespace {

/// What gradients start from, beside query, key and value.
struct Results {
  Array out;
  Array lse;
  Array grad_out;
  Array grad_lse;
};

void check_shape(const char* name, const Form& form, const Shape& shape, const char* as) {
  if (form.axes == shape.axes() && std::equal(shape.sizes.begin(), shape.sizes.end(), form.shape))
    return;
  refuse("%s has shape %s; it must have %s, as %s has", name,
         shape_text(form.shape, form.axes).c_str(),
         shape_text(shape.sizes.data(), shape.axes()).c_str(), as);
}

Array read_like_out(const Call& call, const char* name, nb::handle from) {
  Array array = read_array(name, from);
  check_shape(name, array.form, out_shape(call), "the result");
  check_result_type(call, name, array.form);
  return array;
}

Array read_like_lse(const Call& call, const char* name, nb::handle from) {
  Array array = read_array(name, from);
  check_shape(name, array.form, lse_shape(call), "the lse of the result");
  if (array.form.element != Element::kF32 && array.form.element != Element::kF64)
    refuse("%s is %s; it must be float32 or float64", name, name_of(array.form.element));
  return array;
}

/// Reads what the forward call gave, and its gradients.
Results read_results(Call& call, heed_attention_backward_desc& desc,
                     heed_attention_backward_args& args, nb::handle out, nb::handle lse,
                     nb::handle grad_out, nb::handle grad_lse) {
  Results results;
  results.out = read_like_out(call, "out", out);
  call.desc.out = layout_of(results.out.form, call.packed_queries());
  call.args.out = address_of(results.out);
  results.lse = read_like_lse(call, "lse", lse);
  call.desc.lse = lse_layout(results.lse.form);
  call.args.lse = address_of(results.lse);
  results.grad_out = read_like_out(call, "grad_out", grad_out);
  desc.grad_out = layout_of(results.grad_out.form, call.packed_queries());
  args.grad_out = address_of(results.grad_out);
  if (!grad_lse.is_none()) {
    results.grad_lse = read_like_lse(call, "grad_lse", grad_lse);
    desc.grad_lse = lse_layout(results.grad_lse.form);
    args.grad_lse = address_of(results.grad_lse);
  }
  return results;
}

/// What C refuses too, in its own words.
void check_differentiable(const Call& call, const Options& options) {
  for (const nb::handle Options::*asked : {&Options::return_lse, &Options::return_weights,
                                           &Options::weight_rows, &Options::return_column_sums})
    for (const OptionName& option : kOptions)
      if (option.place == asked && (options.*asked).is_valid())
        refuse_type("attention_backward() got an unexpected keyword argument '%s'", option.name);
  if (call.desc.hard != 0)
    refuse_unsupported("hard is True; it must be False: hard attention is not differentiable");
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
  check_differentiable(call, options);
  heed_attention_backward_desc desc = HEED_ATTENTION_BACKWARD_DESC_INIT;
  heed_attention_backward_args args = HEED_ATTENTION_BACKWARD_ARGS_INIT;
  desc.attention = &call.desc;
  args.attention = &call.args;
  desc.accumulate = flag("accumulate", accumulate) ? 1 : 0;
  const Results results = read_results(call, desc, args, out, lse, grad_out, grad_lse);
  if (call.args.score_function != nullptr && score_gradient.is_none())
    refuse_type("score_function is given, so score_gradient must be: what it does to gradients");
  if (!score_gradient.is_none()) {
    if (call.args.score_function == nullptr)
      refuse_type("score_gradient is given without score_function");
    args.score_gradient = read_score_gradient(call.score_function, score_gradient);
  }
  const Gradients gradients(call, wanted, desc, args);
  const HeldContext held = hold_context(context);
  constexpr double kProducts = 2.5;  // of the forward call's two
  check(without_gil(kProducts * flops_of(call.desc), call.score_function,
                    [&] { return heed_attention_backward(held.context, &desc, &args); }));
  call.score_function.raise();
  return gradients.result(query, wanted);
}

}  // namespace

void bind_backward(nb::module_& module) {
  module.def(
      "attention_backward", &attention_backward, nb::arg("query").none(), nb::arg("key").none(),
      nb::arg("value").none(), nb::arg("out").none(), nb::arg("lse").none(),
      nb::arg("grad_out").none(), nb::arg("grad_lse").none(), nb::arg("wanted"),
      nb::arg("accumulate").none(), nb::arg("score_gradient").none(), nb::arg("context").none(),
      nb::arg("options"),
      nb::sig("def attention_backward(query: object, key: object, value: object, out: object, "
              "lse: object, grad_out: object, grad_lse: object, wanted: tuple[object, ...], "
              "accumulate: object, score_gradient: object, context: Context | None, "
              "options: object) -> typing.Any"));
}

}  // namespace heed::python
