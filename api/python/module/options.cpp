#include "api/python/module/options.hpp"

#include <iterator>

namespace heed::python {
namespace {

/// The names as Python's strings, which keywords are compared with by address first.
const nb::object* interned() {
  static const nb::object* const all = [] {
    auto* strings = new nb::object[std::size(kOptions)];
    for (std::size_t i = 0; i < std::size(kOptions); ++i)
      strings[i] = nb::steal(PyUnicode_InternFromString(kOptions[i].name));
    return strings;
  }();
  return all;
}

const OptionName* find(nb::handle key) {
  const nb::object* names = interned();
  for (std::size_t i = 0; i < std::size(kOptions); ++i)
    if (names[i].ptr() == key.ptr()) return &kOptions[i];
  for (std::size_t i = 0; i < std::size(kOptions); ++i)
    if (PyUnicode_CompareWithASCIIString(key.ptr(), kOptions[i].name) == 0) return &kOptions[i];
  return nullptr;
}

}  // namespace

Options read_options(const char* function, nb::handle given) {
  Options options;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(given.ptr(), &at, &key, &value) != 0;) {
    const OptionName* option = find(key);
    if (option == nullptr)
      refuse_type("%s() got an unexpected keyword argument '%s'", function,
                  nb::str(nb::handle(key)).c_str());
    if (value != Py_None) options.*option->place = value;
  }
  return options;
}

}  // namespace heed::python
