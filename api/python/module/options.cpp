#include "api/python/module/options.hpp"

#include <vector>

#include "api/python/module/once.hpp"
#include "api/python/module/signature.hpp"

namespace heed::python {
namespace {

/// The names as Python's strings, which keywords are compared with by address first.
struct Interned {
  std::vector<nb::object> names;

  Interned() {
    for (const OptionName& option : kOptions)
      names.push_back(nb::steal(PyUnicode_InternFromString(option.name)));
  }
};

const OptionName* find(nb::handle key) {
  const std::vector<nb::object>& names = once<Interned>().names;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i].is(key)) return &kOptions[i];
  for (const OptionName& option : kOptions)
    if (PyUnicode_CompareWithASCIIString(key.ptr(), option.name) == 0) return &option;
  return nullptr;
}

}  // namespace

Options read_options(const char* function, nb::handle given) {
  Options options;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(given.ptr(), &at, &key, &value) != 0;) {
    const OptionName* option = find(key);
    if (option == nullptr) {
      nb::list known;
      for (const OptionName& one : kOptions) known.append(one.name);
      refuse_keyword(function, key, known);
    }
    if (value != Py_None) options.*option->place = value;
  }
  return options;
}

}  // namespace heed::python
