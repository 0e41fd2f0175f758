#include "api/python/module/gradients.hpp"

namespace heed::python {

Gradients::Gradients(const Arguments& given, const char* like, const Kind& kind, Element element,
                     void* desc, void* args)
    : given_(given),
      like_(like),
      kind_(kind),
      element_(element),
      accumulates_(is_asked("accumulate", given.accumulate)),
      desc_(desc),
      args_(args) {}

void Gradients::check_type(const char* name, const Form& form) const {
  check_floating(name, form);
  if (float64() != (form.element == Element::kF64))
    refuse("{} is {} but {} is {}; they must both be float64, or neither", name,
           name_of(form.element), like_, name_of(element_));
}

namespace {

void check_shape(const char* name, const Form& form, const Shape& shape, const char* as) {
  if (!form.has_shape(shape))
    refuse("{} has shape {}; it must have {}, as {} has", name, shape_text(form), shape_text(shape),
           as);
}

}  // namespace

Array Gradients::read_like_out(const char* name, nb::handle from, const Shape& shape) const {
  Array array = read_array(name, from);
  check_shape(name, array.form, shape, "the result");
  check_type(name, array.form);
  return array;
}

Array Gradients::read_like_lse(const char* name, nb::handle from, const Shape& shape) {
  Array array = read_array(name, from);
  check_shape(name, array.form, shape, "the lse of the result");
  if (array.form.element != Element::kF32 && array.form.element != Element::kF64)
    refuse("{} is {}; it must be float32 or float64", name, name_of(array.form.element));
  return array;
}

nb::handle Gradients::wanted(const Operand& operand, bool by_default) const {
  const nb::handle wanted = given_.*operand.wanted;
  if (!wanted.is_valid()) return by_default ? nb::handle(Py_True) : nb::handle();
  if (const std::optional<bool> given = truth(wanted))
    return *given ? nb::handle(Py_True) : nb::handle();
  if (PyLong_Check(wanted.ptr()) != 0)
    refuse_type("{} must be True, False or an array to write to, not {}", operand.gradient,
                nb::repr(wanted));
  return wanted;
}

Gradient& Gradients::make(const char* name, nb::handle wanted, const Form& form, bool zeroed) {
  Gradient& gradient = arrays_.emplace_back();
  if (!wanted.is_valid()) return gradient;
  if (wanted.ptr() == Py_True) {
    gradient.output = make_array(kind_, form.element, form, accumulates_ || zeroed);
    return gradient;
  }
  gradient.output = {nb::borrow(wanted), read_output(name, wanted), true};
  const Form& own = gradient.output.array.form;
  if (!own.has_shape(form))
    refuse("{} has shape {}; the gradient has {}", name, shape_text(own), shape_text(form));
  return gradient;
}

const Gradient* Gradients::add(const Operand& operand, nb::handle wanted, const Form& form,
                               bool zeroed, bool any_type) {
  const Gradient& gradient = make(operand.gradient, wanted, form, zeroed);
  if (!wanted.is_valid()) return nullptr;
  if (!any_type) check_type(operand.gradient, gradient.form());
  check_floating(operand.gradient, gradient.form());
  set_member(args_, operand.grad_data, gradient.data());
  return &gradient;
}

void Gradients::write_wide(const Operand& operand) {
  Gradient& gradient = arrays_.back();
  if (bytes_of(gradient.form().element) >= bytes_of(real())) return;
  gradient.full = make_array(kind_, real(), gradient.form(), accumulates_);
  set_member(args_, operand.grad_data, gradient.data());
}

void Gradients::add_reals(const Operand& operand, nb::handle wanted, std::int64_t count) {
  const Form form = contiguous_form(real(), {count});
  const Gradient& gradient = make(operand.gradient, wanted, form, false);
  if (!wanted.is_valid()) return;
  if (gradient.form() != form)
    refuse("{} is {} with strides {}; it must be contiguous {}", operand.gradient,
           text(gradient.form()), stride_text(gradient.form()), name_of(real()));
  set_member(args_, operand.grad_data, gradient.data());
}

// Some packed rows may belong to no sequence, and stay 0.
void Gradients::add_rows(const Operand& operand, const Form& form, const Shape& full, bool packed) {
  const nb::handle how = wanted(operand, true);
  add(operand, how, form, packed);
  if (!how.is_valid()) return;
  Gradient& gradient = arrays_.back();
  for (int axis = 0; axis < full.axes; ++axis)
    if (form.size(full.axes - axis) != full.sizes[axis]) gradient.summed.push_back(axis);
  // In the arithmetic's type, so that sums are rounded once.
  if (!gradient.summed.empty())
    gradient.full = make_array(kind_, real(), full, accumulates_ || packed);
  set_member(args_, operand.grad_data, gradient.data());
  set_layout(operand, layout_of(gradient.form(), packed));
}

void Gradients::add_bias(const Operand& operand, const Call& call) {
  const nb::handle how = wanted(operand, false);
  if (how.is_valid() &&
      call.desc.bias.dtype == HEED_DTYPE_DEFAULT)  // of no elements it has no address
    refuse("grad_bias is wanted, but neither bias nor a floating attn_mask is given");
  if (const Gradient* const to = add(operand, how, call.bias.form, false, true))
    set_layout(operand, score_layout(operand.gradient, to->form(), call));
}

void Gradients::add_given(const Operand& operand, const void* given, std::int64_t count) {
  const nb::handle how = wanted(operand, false);
  if (how.is_valid() && given == nullptr)
    refuse("{} is wanted, but no {} are given", operand.gradient, operand.name);
  add_reals(operand, how, count);
}

void Gradients::add_number(const Operand& operand) {
  Number& number = numbers_.emplace_back();
  number.wanted = is_asked(operand.gradient, given_.*operand.wanted);
  if (!number.wanted) return;
  void* const place = float64() ? static_cast<void*>(&number.number) : &number.single;
  set_member(args_, operand.grad_data, place);
}

std::uint32_t Gradients::bits() const {
  std::uint32_t bits = 0;
  std::uint32_t bit = 1;
  for (const Gradient& gradient : arrays_) {
    if (gradient.output.object.is_valid()) bits |= bit;
    bit <<= 1;
  }
  for (const Number& number : numbers_) {
    if (number.wanted) bits |= bit;
    bit <<= 1;
  }
  return bits;
}

nb::object Gradients::handed(const Gradient& gradient, nb::handle like) const {
  const Output& output = gradient.output;
  if (gradient.full.object.is_valid()) {
    nb::list axes;
    for (const int axis : gradient.summed) axes.append(axis);
    const nb::object& object = output.object;
    nb::object sums = gradient.full.object;
    if (!gradient.summed.empty())
      sums = sums.attr("sum")(nb::tuple(axes)).attr("reshape")(object.attr("shape"));
    if (accumulates_) sums = sums.attr("__add__")(object);
    object.attr("__setitem__")(nb::ellipsis(), sums);
  }
  return output.handed(kind_, like);
}

nb::object Gradients::result(const nb::object& type, nb::handle like) const {
  nb::list found;
  for (const Gradient& gradient : arrays_) found.append(handed(gradient, like));
  for (const Number& number : numbers_) {
    if (number.wanted)
      found.append(nb::float_(float64() ? number.number : double{number.single}));
    else
      found.append(nb::none());
  }
  return type(*nb::tuple(found));
}

// C refuses these too, in its own words.
void check_differentiable(const char* function, const Arguments& given) {
  for (const Argument& argument : kArguments)
    if ((argument.uses & kAsked) != 0 && (given.*argument.place).is_valid())
      refuse_type("{}() got an unexpected keyword argument '{}'", function, argument.name);
  if (is_asked("hard", given.hard))
    refuse_unsupported("hard is True; it must be False: hard attention is not differentiable");
}

heed_score_gradient score_gradient_of(Call& call, const Arguments& given) {
  const bool function = call.args.score_function != nullptr;
  if (function && !given.score_gradient.is_valid())
    refuse_type("score_function is given, so score_gradient must be: what it does to gradients");
  if (!given.score_gradient.is_valid()) return nullptr;
  if (!function) refuse_type("score_gradient is given without score_function");
  return read_score_gradient(call.score_function, given.score_gradient);
}

// ---- Gradients of dense attention ----

AttentionGradients::AttentionGradients(Call& call, const Arguments& given)
    : gradients(given, "query", call.kind, call.element, &desc, &args) {
  desc.attention = &call.desc;
  args.attention = &call.args;
  const bool packed_q = call.packed_queries();
  const bool packed_k = call.packed_keys();
  out = gradients.read_like_out("out", given.out, call.out_shape());
  call.desc.out = layout_of(out.form, packed_q);
  call.args.out = address_of(out);
  lse = gradients.read_like_lse("lse", given.lse, call.lse_shape());
  call.desc.lse = lse_layout(lse.form);
  call.args.lse = address_of(lse);
  gradients.read_given(
      desc, args, call.out_shape(), [&](const Form& form) { return layout_of(form, packed_q); },
      call.lse_shape(), lse_layout);
  const heed_attention_desc& forward = call.desc;
  const auto full = [&](bool packed, std::int64_t heads, std::int64_t rows, std::int64_t features) {
    return packed ? Shape{rows, heads, features} : Shape{forward.batch, heads, rows, features};
  };
  const std::int64_t keys = call.key.form.size(packed_k ? 3 : 2);
  gradients.add_rows(HEED_OPERAND(AttentionApi, query, query), call.query.form,
                     full(packed_q, forward.query_heads, call.rows, forward.features), packed_q);
  gradients.add_rows(HEED_OPERAND(AttentionApi, key, key), call.key.form,
                     full(packed_k, forward.key_heads, keys, forward.features), packed_k);
  gradients.add_rows(HEED_OPERAND(AttentionApi, value, value), call.value.form,
                     full(packed_k, forward.key_heads, keys, forward.value_features), packed_k);
  gradients.add_options<AttentionApi>(call);
}

}  // namespace heed::python
