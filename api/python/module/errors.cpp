#include "api/python/module/errors.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace heed::python {
namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
    text.replace(at, from.size(), to), at += to.size();
}

/// heed's message about fields of C, in the words of Python.
std::string in_python(std::string message) {
  static constexpr std::pair<const char*, const char*> words[] = {
      {"desc.block: ", ""},
      {"args.block: ", ""},
      {"desc.block->", ""},
      {"grad_input_", "grad_"},
      {"desc.attention: ", ""},
      {"args.attention: ", ""},
      {"desc.attention->", ""},
      {"args.p_", "w_"},
      {"the allocator returned NULL for", "there is no memory for"},
      {"bytes is ", "the number of bytes is "},
      {"desc.edges", "the number of edges"},
      {"desc.sequences allows", "sequences allow"},
      {"desc.batch", "the batch"},
      {"desc.query_heads", "the heads of query"},
      {"desc.key_heads", "the heads of key"},
      {"desc.query_length", "the rows of query"},
      {"desc.key_length", "the rows of key"},
      {"desc.features", "the features of query"},
      {"desc.value_features", "the features of value"},
      {"desc.pages", "the number of pages"},
      {"desc.", ""},
      {"args.", ""},
      {"options.", ""},
      {"executor_name", "executor"},
      {"rotary.", ""},
  };
  for (const auto& [from, to] : words) replace_all(message, from, to);
  return message;
}

const char* error_type(heed_status status) {
  switch (status) {
    case HEED_STATUS_INVALID_ARGUMENT:
    case HEED_STATUS_INVALID_ENVIRONMENT:
    case HEED_STATUS_INVALID_WORKSPACE:
      return "ArgumentError";
    case HEED_STATUS_UNSUPPORTED:
      return "UnsupportedError";
    case HEED_STATUS_OUT_OF_MEMORY:
      return "OutOfMemoryError";
    case HEED_STATUS_BUSY:
      return "BusyError";
    case HEED_STATUS_IO:
      return "FileError";
    case HEED_STATUS_CORRUPT:
      return "CorruptError";
    default:
      return "Error";
  }
}

}  // namespace

Word::Word(const nb::str& given) {
  const char* const known = given.c_str();
  if (known == nullptr) PyErr_Clear();  // it has characters that no UTF-8 has
  text = known != nullptr ? known : "?";
}

Word::Word(double given) {
  std::array<char, 32> digits;
  std::snprintf(digits.data(), digits.size(), "%g", given);
  text = digits.data();
}

void raise_error(const char* type, const char* format, Words words) {
  constexpr std::size_t kLongest = 640;
  std::string message = format;
  std::size_t at = 0;
  for (const Word& word : words) {
    at = message.find("{}", at);
    message.replace(at, 2, word.text);
    at += word.text.size();
  }
  if (message.size() > kLongest) message.resize(kLongest);
  std::optional<nb::python_error> cause;
  if (PyErr_Occurred() != nullptr) cause.emplace();
  const bool plain = std::strcmp(type, "TypeError") == 0;
  const nb::object found = plain ? nb::borrow(PyExc_TypeError)
                                 : nb::object(nb::module_::import_("heed.errors").attr(type));
  if (cause) {
    cause->restore();
    nb::chain_error(found, "%s", message.c_str());
  } else {
    PyErr_SetString(found.ptr(), message.c_str());
  }
  throw nb::python_error();
}

void check(heed_status status) {
  if (status != HEED_STATUS_OK) check(status, heed_last_error());
}

void check(heed_status status, const char* message) {
  if (status != HEED_STATUS_OK) raise_error(error_type(status), "{}", {in_python(message)});
}

void forget(PyObject* answer) {
  if (PyErr_ExceptionMatches(answer) == 0) throw nb::python_error();
  PyErr_Clear();
}

bool is_answer(const nb::python_error& raised) {
  return raised.matches(PyExc_Exception) && !raised.matches(PyExc_MemoryError);
}

nb::object attribute(nb::handle from, nb::handle name) {
  PyObject* found = PyObject_GetAttr(from.ptr(), name.ptr());
  if (found == nullptr) forget(PyExc_AttributeError);
  return nb::steal(found);
}

std::string type_text(nb::handle object) {
  return object.is_valid() ? nb::type_name(object.type()).c_str() : "NoneType";
}

}  // namespace heed::python
