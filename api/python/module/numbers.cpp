#include "api/python/module/numbers.hpp"

#include <limits>
#include <type_traits>

namespace heed::python {
namespace {

template <class T>
constexpr Element kElement = std::is_same_v<T, float>          ? Element::kF32
                             : std::is_same_v<T, double>       ? Element::kF64
                             : std::is_same_v<T, std::int32_t> ? Element::kI32
                                                               : Element::kI64;

template <class T>
T entry(const char* name, std::size_t index, nb::handle from) {
  const std::string place = std::string(name) + "[" + std::to_string(index) + "]";
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(number(place.c_str(), from));
  } else {
    const std::int64_t value = integer(place.c_str(), from);
    if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max())
      refuse("%s is %lld; it must fit in %zu bits", place.c_str(), static_cast<long long>(value),
             8 * sizeof(T));
    return static_cast<T>(value);
  }
}

bool is_sequence(nb::handle from) {
  return nb::isinstance<nb::list>(from) || nb::isinstance<nb::tuple>(from);
}

/// Arrays as lists of numbers, whatever library they are of.
nb::list listed(nb::handle from) {
  return is_sequence(from) ? nb::list(from) : nb::list(from.attr("tolist")());
}

template <class T>
void append(const char* name, const nb::list& from, std::vector<T>& to) {
  to.reserve(to.size() + nb::len(from));
  for (nb::handle number : from) to.push_back(entry<T>(name, to.size(), number));
}

template <class T>
const T* begin_of(const std::vector<T>& copy) {
  static const T none{};
  return copy.empty() ? &none : copy.data();
}

void check_axes(const char* name, const Array& array, int axes) {
  if (array.form.axes != axes)
    refuse("%s has shape %s; it must have %d %s", name,
           shape_text(array.form.shape, array.form.axes).c_str(), axes,
           axes == 1 ? "axis" : "axes");
}

Table copied_table(const char* name, const nb::list& rows) {
  Table table;
  std::vector<std::int32_t>& copy = table.entries.copy;
  for (nb::handle row : rows) {
    if (!is_sequence(row))
      refuse_type("%s must be an array, or a sequence of rows, not of %s", name,
                  type_text(row).c_str());
    const auto columns = static_cast<std::int64_t>(nb::len(row));
    if (table.rows > 0 && columns != table.columns)
      refuse("%s has rows of %lld and %lld entries; all must have the same number", name,
             static_cast<long long>(table.columns), static_cast<long long>(columns));
    table.columns = table.stride = columns;
    ++table.rows;
    append(name, nb::list(nb::borrow(row)), copy);
  }
  table.entries.data = begin_of(copy);
  return table;
}

}  // namespace

double number(const char* name, nb::handle from) {
  const double value = PyFloat_AsDouble(from.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse_type("%s must be a number, not %s", name, type_text(from).c_str());
  }
  return value;
}

bool is_integer(nb::handle from) {
  return PyIndex_Check(from.ptr()) != 0 && PyBool_Check(from.ptr()) == 0;
}

std::int64_t integer(const char* name, nb::handle from) {
  PyObject* index = PyNumber_Index(from.ptr());
  if (index == nullptr) {
    PyErr_Clear();
    refuse_type("%s must be an int, not %s", name, type_text(from).c_str());
  }
  const nb::object held = nb::steal(index);
  const std::int64_t value = PyLong_AsLongLong(index);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse("%s is %s; it must fit in 64 bits", name, nb::str(held).c_str());
  }
  return value;
}

bool flag(const char* name, nb::handle from) {
  if (PyBool_Check(from.ptr()) == 0)
    refuse_type("%s must be True or False, not %s", name, nb::repr(from).c_str());
  return from.ptr() == Py_True;
}

template <class T>
Vector<T> read_vector(const char* name, nb::handle from) {
  Vector<T> vector;
  if (!is_sequence(from)) {
    vector.array = read_array(name, from);
    const Form& form = vector.array.form;
    check_axes(name, vector.array, 1);
    if (form.element == kElement<T> && (form.shape[0] <= 1 || form.strides[0] == 1)) {
      vector.data = static_cast<const T*>(vector.array.data);
      vector.count = form.shape[0];
      if (vector.data == nullptr) vector.data = begin_of(vector.copy);
      return vector;
    }
  }
  append(name, listed(from), vector.copy);
  vector.data = begin_of(vector.copy);
  vector.count = static_cast<std::int64_t>(vector.copy.size());
  return vector;
}

template Vector<std::int32_t> read_vector(const char*, nb::handle);
template Vector<std::int64_t> read_vector(const char*, nb::handle);
template Vector<float> read_vector(const char*, nb::handle);
template Vector<double> read_vector(const char*, nb::handle);

Table read_table(const char* name, nb::handle from) {
  Table table;
  if (is_sequence(from)) return copied_table(name, nb::list(from));
  table.entries.array = read_array(name, from);
  const Form& form = table.entries.array.form;
  check_axes(name, table.entries.array, 2);
  if (form.element != Element::kI32 || (form.shape[1] > 1 && form.strides[1] != 1) ||
      (form.shape[0] > 1 && form.strides[0] < form.shape[1]))
    return copied_table(name, listed(from));
  table.rows = form.shape[0];
  table.columns = form.shape[1];
  table.stride = form.shape[0] > 1 ? form.strides[0] : form.shape[1];
  table.entries.data = static_cast<const std::int32_t*>(table.entries.array.data);
  if (table.entries.data == nullptr) table.entries.data = begin_of(table.entries.copy);
  return table;
}

}  // namespace heed::python
