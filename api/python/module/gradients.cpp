#include "api/python/module/gradients.hpp"

#include <algorithm>
#include <string>

namespace heed::python {
namespace {

bool has_shape(const Form& form, const std::int64_t* shape, int axes) {
  return form.axes == axes && std::equal(shape, shape + axes, form.shape);
}

void check_shape(const char* name, const Form& form, const Shape& shape, const char* as) {
  if (has_shape(form, shape.sizes.data(), shape.axes())) return;
  refuse("%s has shape %s; it must have %s, as %s has", name,
         shape_text(form.shape, form.axes).c_str(),
         shape_text(shape.sizes.data(), shape.axes()).c_str(), as);
}

}  // namespace

bool is_wanted(const char* name, nb::handle wanted) {
  if (wanted.ptr() == Py_False) return false;
  if (wanted.ptr() == Py_True) return true;
  if (PyLong_Check(wanted.ptr()) == 0 && !wanted.is_none()) return true;
  refuse_type("%s must be True, False or an array to write to, not %s", name,
              nb::repr(wanted).c_str());
}

nb::object Gradient::result(const Kind& kind, nb::handle like) const {
  if (!object.is_valid()) return nb::none();
  if (!summed.empty()) {
    nb::list axes;
    for (const int axis : summed) axes.append(axis);
    nb::object sums =
        full.object.attr("sum")(nb::tuple(axes)).attr("reshape")(object.attr("shape"));
    if (accumulate) sums = sums.attr("__add__")(object);
    object.attr("__setitem__")(nb::ellipsis(), sums);
  }
  return given ? object : as_kind_of(kind, like, object);
}

void GradientMaker::check_type(const char* name, const Form& form) const {
  check_floating(name, form);
  if (float64() != (form.element == Element::kF64))
    refuse("%s is %s but %s is %s; they must both be float64, or neither", name,
           name_of(form.element), like, name_of(like_element));
}

Array GradientMaker::array(const char* name, nb::handle wanted, const Form& form,
                           Gradient& gradient, bool zeroed) const {
  if (wanted.ptr() == Py_True) {
    Made made = make_array(kind, form.element, form.shape, form.axes, accumulate || zeroed);
    Array array;
    array.form = contiguous_form(form.element, form.shape, form.axes);
    array.data = made.data;
    array.kind = kind;
    gradient.object = std::move(made.object);
    return array;
  }
  Array array = read_output(name, wanted);
  if (!has_shape(array.form, form.shape, form.axes))
    refuse("%s has shape %s; the gradient has %s", name,
           shape_text(array.form.shape, array.form.axes).c_str(),
           shape_text(form.shape, form.axes).c_str());
  gradient.object = nb::borrow(wanted);
  gradient.keeper = array.keeper;
  gradient.given = true;
  return array;
}

Gradient GradientMaker::of_tensor(const char* name, nb::handle wanted, const Form& form,
                                  Array& array, bool zeroed) const {
  Gradient gradient;
  if (!is_wanted(name, wanted)) return gradient;
  array = this->array(name, wanted, form, gradient, zeroed);
  check_type(name, array.form);
  return gradient;
}

Gradient GradientMaker::of_reals(const char* name, nb::handle wanted, std::int64_t count,
                                 void*& data) const {
  Gradient gradient;
  if (!is_wanted(name, wanted)) return gradient;
  const Form form = contiguous_form(real(), &count, 1);
  const Array array = this->array(name, wanted, form, gradient);
  if (array.form != form)
    refuse("%s is %s with strides %s; it must be contiguous %s", name, text(array.form).c_str(),
           shape_text(array.form.strides, array.form.axes).c_str(), name_of(real()));
  data = address_of(array);
  return gradient;
}

Gradient OptionGradients::of_bias(const GradientMaker& make, const Call& call, nb::handle wanted,
                                  heed_score_layout& layout, void*& data) {
  Gradient gradient;
  if (!is_wanted("grad_bias", wanted)) return gradient;
  if (call.desc.bias.dtype == HEED_DTYPE_DEFAULT)  // of no elements it has no address
    refuse("grad_bias is wanted, but neither bias nor a floating attn_mask is given");
  const Array array = make.array("grad_bias", wanted, call.bias.form, gradient);
  check_floating("grad_bias", array.form);
  layout = score_layout("grad_bias", array.form, call.desc);
  data = address_of(array);
  return gradient;
}

Gradient OptionGradients::of_heads(const GradientMaker& make, const char* of, nb::handle wanted,
                                   const void* given, const Call& call, void*& data) {
  const std::string name = std::string("grad_") + of;
  if (!is_wanted(name.c_str(), wanted)) return {};
  if (given == nullptr) refuse("%s is wanted, but no %s are given", name.c_str(), of);
  return make.of_reals(name.c_str(), wanted, call.desc.query_heads, data);
}

void* OptionGradients::Number::want(const char* name, nb::handle given, const GradientMaker& make) {
  wanted = flag(name, given);
  float64 = make.float64();
  if (!wanted) return nullptr;
  return float64 ? static_cast<void*>(&number) : &single;
}

void OptionGradients::append_to(nb::list& results, const Kind& kind, nb::handle like) const {
  for (const Gradient& gradient : arrays_) results.append(gradient.result(kind, like));
  for (const Number& number : numbers_) {
    if (number.wanted)
      results.append(nb::float_(number.float64 ? number.number : double{number.single}));
    else
      results.append(nb::none());
  }
}

void refuse_option(const char* function, const char* option) {
  refuse_type("%s() got an unexpected keyword argument '%s'", function, option);
}

// What C refuses too, in its own words.
void check_differentiable(const char* function, const Call& call, const Options& options) {
  for (const nb::handle Options::*asked : {&Options::return_lse, &Options::return_weights,
                                           &Options::weight_rows, &Options::return_column_sums})
    for (const OptionName& option : kOptions)
      if (option.place == asked && (options.*asked).is_valid())
        refuse_option(function, option.name);
  if (call.desc.hard != 0)
    refuse_unsupported("hard is True; it must be False: hard attention is not differentiable");
}

heed_score_gradient score_gradient_of(Call& call, nb::handle given) {
  const bool function = call.args.score_function != nullptr;
  if (function && given.is_none())
    refuse_type("score_function is given, so score_gradient must be: what it does to gradients");
  if (given.is_none()) return nullptr;
  if (!function) refuse_type("score_gradient is given without score_function");
  return read_score_gradient(call.score_function, given);
}

Array read_like_out(const GradientMaker& make, const char* name, nb::handle from,
                    const Shape& shape) {
  Array array = read_array(name, from);
  check_shape(name, array.form, shape, "the result");
  make.check_type(name, array.form);
  return array;
}

Array read_like_lse(const char* name, nb::handle from, const Shape& shape) {
  Array array = read_array(name, from);
  check_shape(name, array.form, shape, "the lse of the result");
  if (array.form.element != Element::kF32 && array.form.element != Element::kF64)
    refuse("%s is %s; it must be float32 or float64", name, name_of(array.form.element));
  return array;
}

}  // namespace heed::python
