#include "api/python/module/gradients.hpp"

#include <algorithm>

#include "api/python/module/names.hpp"

namespace heed::python {
namespace {

/// The axes of `full` along which `of` has one element, or which it lacks, and full has others.
std::vector<int> repeated_axes(const Form& of, const Shape& full) {
  std::vector<int> axes;
  for (int axis = 0; axis < full.axes(); ++axis)
    if (of.size(full.axes() - axis) != full.sizes[static_cast<std::size_t>(axis)])
      axes.push_back(axis);
  return axes;
}

bool is_wanted(const char* name, nb::handle wanted) {
  if (wanted.ptr() == Py_False) return false;
  if (wanted.ptr() == Py_True) return true;
  if (PyLong_Check(wanted.ptr()) == 0 && !wanted.is_none()) return true;
  refuse_type("%s must be True, False or an array to write to, not %s", name,
              nb::repr(wanted).c_str());
}

}  // namespace

void check_result_type(const Call& call, const char* name, const Form& form) {
  check_floating(name, form);
  if (call.float64 != (form.element == Element::kF64))
    refuse("%s is %s but query is %s; they must both be float64, or neither", name,
           name_of(form.element), name_of(call.query.form.element));
}

void Gradient::finish() const {
  if (summed.empty()) return;
  nb::list axes;
  for (const int axis : summed) axes.append(axis);
  nb::object sums = full.object.attr("sum")(nb::tuple(axes)).attr("reshape")(object.attr("shape"));
  if (accumulate) sums = sums.attr("__add__")(object);
  object.attr("__setitem__")(nb::ellipsis(), sums);
}

Array Gradients::array_for(const char* name, nb::handle wanted, Element element, const Form& like,
                           Gradient& gradient, bool packed) const {
  if (wanted.ptr() == Py_True) {
    Made made = make_array(call_.kind, element, like.shape, like.axes, accumulate_ || packed);
    Array array;
    array.form = contiguous_form(element, like.shape, like.axes);
    array.data = made.data;
    array.kind = call_.kind;
    gradient.object = std::move(made.object);
    return array;
  }
  Array array = read_output(name, wanted);
  const Form& form = array.form;
  if (form.axes != like.axes || !std::equal(like.shape, like.shape + like.axes, form.shape))
    refuse("%s has shape %s; the gradient has %s", name, shape_text(form.shape, form.axes).c_str(),
           shape_text(like.shape, like.axes).c_str());
  gradient.object = nb::borrow(wanted);
  gradient.keeper = array.keeper;
  return array;
}

Gradient Gradients::of_tensor(const char* name, nb::handle wanted, const Form& of,
                              const Shape& full, bool packed, heed_layout& layout, void*& data) {
  Gradient gradient;
  if (!is_wanted(name, wanted)) return gradient;
  Array array = array_for(name, wanted, of.element, of, gradient, packed);
  check_result_type(call_, name, array.form);
  gradient.summed = repeated_axes(of, full);
  if (!gradient.summed.empty()) {
    // In the arithmetic's type, so that sums are rounded once.
    const Element real = call_.float64 ? Element::kF64 : Element::kF32;
    gradient.full =
        make_array(array.kind, real, full.sizes.data(), full.axes(), accumulate_ || packed);
    gradient.accumulate = accumulate_;
    array.form = contiguous_form(real, full.sizes.data(), full.axes());
    array.data = gradient.full.data;
  }
  layout = layout_of(array.form, packed);
  data = address_of(array);
  return gradient;
}

Gradient Gradients::of_bias(nb::handle wanted, heed_score_layout& layout, void*& data) {
  Gradient gradient;
  if (!is_wanted("grad_bias", wanted)) return gradient;
  if (call_.args.bias == nullptr)
    refuse("grad_bias is wanted, but neither bias nor a floating attn_mask is given");
  const Form& bias = call_.bias.form;
  const Array array = array_for("grad_bias", wanted, bias.element, bias, gradient);
  check_floating("grad_bias", array.form);
  layout = score_layout("grad_bias", array.form, call_.desc);
  data = address_of(array);
  return gradient;
}

Gradient Gradients::of_heads(const char* name, const char* of, nb::handle wanted, const void* given,
                             void*& data) {
  Gradient gradient;
  if (!is_wanted(name, wanted)) return gradient;
  if (given == nullptr) refuse("%s is wanted, but no %s are given", name, of);
  const Element real = call_.float64 ? Element::kF64 : Element::kF32;
  const Form like = contiguous_form(real, &call_.desc.query_heads, 1);
  const Array array = array_for(name, wanted, real, like, gradient);
  if (array.form != like)
    refuse("%s is %s with strides %s; it must be contiguous %s", name, text(array.form).c_str(),
           shape_text(array.form.strides, array.form.axes).c_str(), name_of(real));
  data = address_of(array);
  return gradient;
}

void* Gradients::of_number(const char* name, nb::handle wanted, int index) {
  auto& number = numbers_[index];
  number.wanted = flag(name, wanted);
  if (!number.wanted) return nullptr;
  return call_.float64 ? static_cast<void*>(&number.number) : &number.single;
}

Gradients::Gradients(const Call& call, const nb::tuple& wanted, heed_attention_backward_desc& desc,
                     heed_attention_backward_args& args)
    : call_(call), accumulate_(desc.accumulate != 0) {
  const heed_attention_desc& forward = call.desc;
  const bool packed_q = call.packed_queries();
  const bool packed_k = call.packed_keys();
  const auto full = [&](bool packed, std::int64_t heads, std::int64_t rows, std::int64_t features) {
    return packed ? Shape({rows, heads, features}, 0)
                  : Shape({forward.batch, heads, rows, features}, 0);
  };
  const std::int64_t keys = call.key.form.size(packed_k ? 3 : 2);
  arrays_[0] = of_tensor("grad_query", wanted[0], call.query.form,
                         full(packed_q, forward.query_heads, call.rows, forward.features), packed_q,
                         desc.grad_query, args.grad_query);
  arrays_[1] = of_tensor("grad_key", wanted[1], call.key.form,
                         full(packed_k, forward.key_heads, keys, forward.features), packed_k,
                         desc.grad_key, args.grad_key);
  arrays_[2] = of_tensor("grad_value", wanted[2], call.value.form,
                         full(packed_k, forward.key_heads, keys, forward.value_features), packed_k,
                         desc.grad_value, args.grad_value);
  arrays_[3] = of_bias(wanted[3], desc.grad_bias, args.grad_bias);
  arrays_[4] = of_heads("grad_sinks", "sinks", wanted[4], call.args.sinks, args.grad_sinks);
  arrays_[5] = of_heads("grad_alibi_slopes", "alibi_slopes", wanted[5], call.args.alibi_slopes,
                        args.grad_alibi_slopes);
  args.grad_scale = of_number("grad_scale", wanted[6], 0);
  args.grad_temperature = of_number("grad_temperature", wanted[7], 1);
}

nb::object Gradients::result(nb::handle query, const nb::tuple& wanted) const {
  nb::object given[8];
  for (int i = 0; i < 6; ++i) {
    const Gradient& gradient = arrays_[i];
    gradient.finish();
    given[i] = !gradient.object.is_valid()     ? nb::none()
               : gradient.object.is(wanted[i]) ? gradient.object
                                               : as_kind_of(call_.kind, query, gradient.object);
  }
  for (int i = 0; i < 2; ++i) {
    const double number = call_.float64 ? numbers_[i].number : double{numbers_[i].single};
    if (numbers_[i].wanted)
      given[6 + i] = nb::float_(number);
    else
      given[6 + i] = nb::none();
  }
  return names().gradients(given[0], given[1], given[2], given[3], given[4], given[5], given[6],
                           given[7]);
}

}  // namespace heed::python
