#include <cstring>

#include "api/python/module/call.hpp"

namespace heed::python {
namespace {

nb::object numpy_dtype(Element element) {
  if (element == Element::kF32) return names().float32;
  if (element == Element::kBf16) return nb::module_::import_("ml_dtypes").attr("bfloat16");
  return nb::str(name_of(element));
}

void* made_by_numpy(Element element, const Shape& shape, nb::object& array) {
  nb::object sizes = nb::steal(PyTuple_New(shape.axes));
  for (int axis = 0; axis < shape.axes; ++axis)
    PyTuple_SetItem(sizes.ptr(), axis, PyLong_FromLongLong(shape.sizes[axis]));
  array = names().empty(sizes, numpy_dtype(element));
  return read_array("out", array).data;
}

void* made_by_exchange(const dlpack::ExchangeApi& api, Element element, Shape shape,
                       nb::object& array) {
  dlpack::Tensor prototype;
  prototype.device.device_type = nb::device::cpu::value;
  prototype.ndim = shape.axes;
  prototype.dtype = dlpack_type(element);
  prototype.shape = shape.sizes;
  dlpack::ManagedVersioned* managed = nullptr;
  const auto set_error = [](void*, const char*, const char* message) {
    PyErr_SetString(PyExc_MemoryError, message);
  };
  if (api.allocate(&prototype, &managed, nullptr, set_error) != 0) throw nb::python_error();
  void* data = static_cast<char*>(managed->tensor.data) + managed->tensor.byte_offset;
  void* object = nullptr;
  if (api.to_object(managed, &object) != 0) throw nb::python_error();
  array = nb::steal(static_cast<PyObject*>(object));
  return data;
}

}  // namespace

Output make_array(const Kind& kind, Element element, const Shape& shape, bool zeroed) {
  Output made;
  Array& array = made.array;
  array.form = contiguous_form(element, shape);
  array.kind = kind;
  array.data = kind.family == Kind::kExchange
                   ? made_by_exchange(*kind.api, element, shape, made.object)
                   : made_by_numpy(element, shape, made.object);
  const std::int64_t bytes = bytes_of(element) * array.form.elements();
  if (zeroed && bytes > 0) std::memset(array.data, 0, static_cast<std::size_t>(bytes));
  return made;
}

Output make_out(nb::handle given, const char* like, const Kind& kind, Element element,
                const Shape& shape, bool zeroed) {
  if (!given.is_valid()) return make_array(kind, element, shape, zeroed);
  Output out = {nb::borrow(given), read_output("out", given), true};
  const Form& form = out.array.form;
  if (!form.has_shape(shape))
    refuse("out has shape {}; the result has {}", shape_text(form), shape_text(shape));
  check_floating("out", form);
  if ((element == Element::kF64) != (form.element == Element::kF64))
    refuse("out is {} but {} is {}; what is given and out must all be float64, or none",
           name_of(form.element), like, name_of(element));
  return out;
}

nb::object Output::handed(const Kind& kind, nb::handle like) const {
  if (!object.is_valid()) return nb::none();
  if (given || kind.family != Kind::kOther || !attribute(like, names().array_namespace).is_valid())
    return object;
  const nb::object library = like.attr(names().array_namespace)();
  try {
    return library.attr("from_dlpack")(object);
  } catch (nb::python_error& error) {
    if (!is_answer(error)) throw;
    return library.attr("asarray")(object);  // types that NumPy does not export
  }
}

nb::object Outputs::result(const Kind& kind, nb::handle like) const {
  nb::object first = out.handed(kind, like);
  if (!lse.object.is_valid() && !weights.object.is_valid() && !column_sums.object.is_valid())
    return first;
  return names().result(first, lse.handed(kind, like), weights.handed(kind, like),
                        column_sums.handed(kind, like));
}

}  // namespace heed::python
