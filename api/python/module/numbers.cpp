#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "api/python/module/array.hpp"

namespace heed::python {
namespace {

template <class T>
constexpr Element kElement = std::is_same_v<T, float>          ? Element::kF32
                             : std::is_same_v<T, double>       ? Element::kF64
                             : std::is_same_v<T, std::int32_t> ? Element::kI32
                                                               : Element::kI64;

std::string place_of(const char* name, std::size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

template <class T>
T narrowed(const char* name, std::size_t index, std::int64_t value) {
  if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max())
    refuse("{} is {}; it must fit in {} bits", place_of(name, index), value, 8 * sizeof(T));
  return static_cast<T>(value);
}

/// A finite number must stay it.
template <class Real>
Real as_real(const char* name, double value) {
  constexpr auto kMost = static_cast<double>(std::numeric_limits<Real>::max());
  if (std::isfinite(value) && std::fabs(value) > kMost)
    refuse("{} is {}; it must be at most {}, the largest number of the arithmetic's type", name,
           value, kMost);
  return static_cast<Real>(value);
}

template <class T>
T entry(const char* name, std::size_t index, nb::handle from) {
  const std::string place = place_of(name, index);
  if constexpr (std::is_floating_point_v<T>)
    return real<T>(place.c_str(), from);
  else
    return narrowed<T>(name, index, integer(place.c_str(), from));
}

bool is_sequence(nb::handle from) {
  return nb::isinstance<nb::list>(from) || nb::isinstance<nb::tuple>(from);
}

double from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double size = exponent == 31  ? (fraction == 0 ? std::numeric_limits<double>::infinity()
                                                       : std::numeric_limits<double>::quiet_NaN())
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return (bits >> 15) != 0 ? -size : size;
}

float from_bfloat(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

/// Calls use(number) of an element.
template <class Use>
void with_element(Element element, const char* at, Use&& use) {
  const auto read = [at](auto number) {
    std::memcpy(&number, at, sizeof number);
    return number;
  };
  switch (element) {
    case Element::kBool:
    case Element::kI8:
      return use(read(std::int8_t{}));
    case Element::kI32:
      return use(read(std::int32_t{}));
    case Element::kI64:
      return use(read(std::int64_t{}));
    case Element::kF16:
      return use(from_half(read(std::uint16_t{})));
    case Element::kBf16:
      return use(from_bfloat(read(std::uint16_t{})));
    case Element::kF64:
      return use(read(double{}));
    default:
      return use(read(float{}));
  }
}

template <class T>
void append(const char* name, const nb::list& from, std::vector<T>& to) {
  to.reserve(to.size() + nb::len(from));
  for (nb::handle number : from) to.push_back(entry<T>(name, to.size(), number));
}

/// Appends an array of any type and strides, row after row.
template <class T>
void append(const char* name, const Array& from, std::vector<T>& to) {
  const Form& form = from.form;
  const std::int64_t count = form.elements();
  const bool whole = std::is_integral_v<T>;
  const bool fits = form.element != Element::kF8E4M3 && !(whole && is_floating(form.element));
  if (count > 0 && !fits)
    refuse_type("{} is {}; it must be of {}", name, name_of(form.element),
                whole ? "integers" : "floating numbers of 16 bits or more");
  to.reserve(static_cast<std::size_t>(count));
  const auto* data = static_cast<const char*>(from.data);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = i / form.size(1) * form.stride(2) + i % form.size(1) * form.stride(1);
    with_element(form.element, data + at * bytes_of(form.element), [&](auto number) {
      if constexpr (std::is_integral_v<T> && std::is_integral_v<decltype(number)>)
        to.push_back(narrowed<T>(name, to.size(), number));
      else if constexpr (std::is_same_v<T, float> && std::is_same_v<decltype(number), double>)
        to.push_back(as_real<T>(place_of(name, to.size()).c_str(), number));
      else
        to.push_back(static_cast<T>(number));
    });
  }
}

/// Appends a sequence of sequences.
template <class T>
void append_rows(const char* name, const nb::list& rows, Vector<T>& to) {
  for (nb::handle row : rows) {
    if (!is_sequence(row))
      refuse_type("{} must be an array, or a sequence of rows, not of {}", name, type_text(row));
    const nb::list entries(row);
    const auto columns = static_cast<std::int64_t>(nb::len(entries));
    if (to.rows > 0 && columns != to.columns)
      refuse("{} has rows of {} and {} entries; all must have the same number", name, to.columns,
             columns);
    to.columns = to.stride = columns;
    ++to.rows;
    append(name, entries, to.copy);
  }
}

}  // namespace

double number(const char* name, nb::handle from) {
  if (!from.is_valid()) from = Py_None;
  const double value = PyFloat_AsDouble(from.ptr());
  if (value != -1 || PyErr_Occurred() == nullptr) return value;
  nb::python_error error;
  const std::string type = type_text(from);
  if (error.matches(PyExc_OverflowError) && PyLong_Check(from.ptr()) != 0)
    refuse("{} is an int that is too large for float64", name);
  if (!error.matches(PyExc_TypeError)) throw error;
  error.restore();
  refuse_type("{} must be a number, not {}", name, type);
}

template <class Real>
Real real(const char* name, nb::handle from) {
  return as_real<Real>(name, number(name, from));
}

template float real<float>(const char*, nb::handle);
template double real<double>(const char*, nb::handle);

bool is_integer(nb::handle from) {
  return PyIndex_Check(from.ptr()) != 0 && PyBool_Check(from.ptr()) == 0;
}

// NumPy's is no subclass of Python's, and has had two names.
std::optional<bool> truth(nb::handle from) {
  if (PyBool_Check(from.ptr()) != 0) return from.ptr() == Py_True;
  const std::string type = nb::repr(from.type()).c_str();
  if (type != "<class 'numpy.bool'>" && type != "<class 'numpy.bool_'>") return std::nullopt;
  return nb::cast<bool>(from.attr("__bool__")());
}

std::int64_t integer(const char* name, nb::handle from) {
  if (!from.is_valid()) from = Py_None;
  PyObject* index = PyNumber_Index(from.ptr());
  if (index == nullptr) {
    nb::python_error error;
    if (!error.matches(PyExc_TypeError)) throw error;
    const std::string type = type_text(from);
    error.restore();
    refuse_type("{} must be an int, not {}", name, type);
  }
  const nb::object held = nb::steal(index);
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(index, &overflow);
  if (overflow == 0) return value;
  PyObject* digits = PyObject_Str(index);  // Python refuses to make thousands of them
  if (digits == nullptr) forget(PyExc_ValueError);
  const nb::object text = nb::steal(digits);
  refuse("{} is {}; it must fit in 64 bits", name,
         text.is_valid() ? nb::borrow<nb::str>(text).c_str() : "an int of thousands of digits");
}

std::int64_t count(const char* name, nb::handle from, const char* otherwise) {
  const std::int64_t value = integer(name, from);
  if (value < 1) refuse("{} is {}; it must be at least 1{}", name, value, otherwise);
  return value;
}

std::uint32_t read_word(const char* name, nb::handle from, std::initializer_list<const char*> words,
                        const char* others) {
  const bool is_word = nb::isinstance<nb::str>(from);
  std::string choices = others;
  std::uint32_t index = 0;
  for (const char* const word : words) {
    if (is_word && from.equal(nb::str(word))) return index;
    choices += index == 0 ? "\"" : index + 1 < words.size() ? ", \"" : " or \"";
    choices += word + std::string("\"");
    ++index;
  }
  if (!is_word) refuse_type("{} must be {}, not {}", name, choices, type_text(from));
  refuse("{} is {}; it must be {}", name, nb::repr(from), choices);
}

int file_descriptor(nb::handle from) {
  const std::int64_t number = integer("descriptor", from);
  if (number < 0 || number > std::numeric_limits<int>::max())
    refuse("descriptor is {}; it must be that of an open file", number);
  return static_cast<int>(number);
}

bool flag(const char* name, nb::handle from) {
  if (!from.is_valid()) from = Py_None;
  const std::optional<bool> given = truth(from);
  if (!given) refuse_type("{} must be True or False, not {}", name, nb::repr(from));
  return *given;
}

template <class T>
Vector<T> read_vector(const char* name, nb::handle from, int axes) {
  Vector<T> table;
  bool lies = false;
  if (!is_sequence(from)) {
    table.array = read_array(name, from);
    const Form& form = table.array.form;
    if (form.axes != axes)
      refuse("{} has shape {}; it must have {} {}", name, shape_text(form), axes,
             axes == 1 ? "axis" : "axes");
    table.rows = form.size(2);
    table.columns = table.stride = form.size(1);
    lies = form.element == kElement<T> && (form.size(1) <= 1 || form.stride(1) == 1) &&
           (form.size(2) <= 1 || form.stride(2) >= form.size(1));
    if (!lies) append(name, table.array, table.copy);
    if (lies && form.size(2) > 1) table.stride = form.stride(2);
  } else if (axes == 1) {
    append(name, nb::list(from), table.copy);
    table.rows = 1;
    table.columns = table.stride = static_cast<std::int64_t>(table.copy.size());
  } else {
    append_rows(name, nb::list(from), table);
  }
  static const T none{};
  table.count = table.rows * table.columns;
  table.data = lies ? static_cast<const T*>(table.array.data) : table.copy.data();
  if (table.data == nullptr) table.data = &none;
  return table;
}

template <class T>
Vector<T> read_each(const char* name, nb::handle from, std::int64_t count, const char* of) {
  Vector<T> vector = read_vector<T>(name, from);
  if (vector.count != count)
    refuse("{} has {} numbers; it must have one for each of the {} {}", name, vector.count, count,
           of);
  return vector;
}

template Vector<std::int32_t> read_vector(const char*, nb::handle, int);
template Vector<std::int64_t> read_vector(const char*, nb::handle, int);
template Vector<std::int32_t> read_each(const char*, nb::handle, std::int64_t, const char*);
template Vector<std::int64_t> read_each(const char*, nb::handle, std::int64_t, const char*);
template Vector<float> read_each(const char*, nb::handle, std::int64_t, const char*);
template Vector<double> read_each(const char*, nb::handle, std::int64_t, const char*);

bool is_table(const char* name, nb::handle from) {
  if (!is_sequence(from)) return read_array(name, from).form.axes == 2;
  const nb::list rows(from);
  return nb::len(rows) > 0 && is_sequence(rows[0]);
}

}  // namespace heed::python
