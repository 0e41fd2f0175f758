#include "api/python/module/array.hpp"

#include <algorithm>

namespace heed::python {
namespace {

struct Properties {
  const char* name;
  std::int64_t bytes;
  bool floating;
  heed_dtype dtype;
};

const Properties& properties(Element element) {
  static constexpr Properties all[] = {
      {"bool", 1, false, HEED_DTYPE_DEFAULT},
      {"int8", 1, false, HEED_DTYPE_I8},
      {"int32", 4, false, HEED_DTYPE_DEFAULT},
      {"int64", 8, false, HEED_DTYPE_DEFAULT},
      {"float16", 2, true, HEED_DTYPE_F16},
      {"bfloat16", 2, true, HEED_DTYPE_BF16},
      {"float32", 4, true, HEED_DTYPE_F32},
      {"float64", 8, true, HEED_DTYPE_F64},
      {"float8_e4m3fn", 1, false, HEED_DTYPE_F8_E4M3},
  };
  return all[static_cast<std::size_t>(element)];
}

}  // namespace

const char* name_of(Element element) { return properties(element).name; }
std::int64_t bytes_of(Element element) { return properties(element).bytes; }
bool is_floating(Element element) { return properties(element).floating; }
heed_dtype dtype_of(Element element) { return properties(element).dtype; }

std::int64_t Form::elements() const {
  std::int64_t product = 1;
  for (int axis = 0; axis < axes; ++axis) product *= shape[axis];
  return product;
}

bool is_contiguous(const Form& form) {
  if (form.elements() == 0) return true;
  std::int64_t stride = 1;
  for (int axis = form.axes - 1; axis >= 0; --axis) {
    if (form.shape[axis] > 1 && form.strides[axis] != stride) return false;
    stride *= form.shape[axis];
  }
  return true;
}

Form contiguous_form(Element element, const std::int64_t* shape, int axes) {
  Form form;
  form.element = element;
  form.axes = axes;
  std::int64_t stride = 1;
  for (int axis = axes - 1; axis >= 0; --axis) {
    form.shape[axis] = shape[axis];
    form.strides[axis] = shape[axis] > 1 ? stride : 0;
    stride *= shape[axis];
  }
  return form;
}

bool operator==(const Form& a, const Form& b) {
  return a.element == b.element && a.axes == b.axes &&
         std::equal(a.shape, a.shape + a.axes, b.shape) &&
         std::equal(a.strides, a.strides + a.axes, b.strides);
}

Array read_output(const char* name, nb::handle from) {
  Array array = read_array(name, from);
  if (!array.writable) refuse("%s is read-only; the result could not be written to it", name);
  return array;
}

std::string shape_text(const std::int64_t* shape, int axes) {
  std::string text = "[";
  for (int axis = 0; axis < axes; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

std::string text(const Form& form) {
  return std::string(name_of(form.element)) + " " + shape_text(form.shape, form.axes);
}

}  // namespace heed::python
