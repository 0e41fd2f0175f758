#include "api/python/module/errors.hpp"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

namespace heed::python {
namespace {

using Message = std::array<char, 640>;

Message formatted(const char* format, std::va_list arguments) {
  Message message;
  std::vsnprintf(message.data(), message.size(), format, arguments);
  return message;
}

[[noreturn]] void raise(nb::handle type, const char* message) {
  if (PyErr_Occurred() != nullptr)
    nb::chain_error(type, "%s", message);
  else
    PyErr_SetString(type.ptr(), message);
  throw nb::python_error();
}

[[noreturn]] void raise_error(const char* type, const char* message) {
  std::optional<nb::python_error> cause;
  if (PyErr_Occurred() != nullptr) cause.emplace();
  const nb::object found = nb::module_::import_("heed.errors").attr(type);
  if (cause) cause->restore();
  raise(found, message);
}

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

void refuse(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const Message message = formatted(format, arguments);
  va_end(arguments);
  raise_error("ArgumentError", message.data());
}

void refuse_memory(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const Message message = formatted(format, arguments);
  va_end(arguments);
  raise_error("OutOfMemoryError", message.data());
}

void refuse_unsupported(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const Message message = formatted(format, arguments);
  va_end(arguments);
  raise_error("UnsupportedError", message.data());
}

void refuse_type(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  const Message message = formatted(format, arguments);
  va_end(arguments);
  raise(PyExc_TypeError, message.data());
}

void check(heed_status status) {
  if (status != HEED_STATUS_OK) check(status, heed_last_error());
}

void check(heed_status status, const char* message) {
  if (status != HEED_STATUS_OK) raise_error(error_type(status), in_python(message).c_str());
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

std::string type_text(nb::handle object) { return nb::type_name(object.type()).c_str(); }

}  // namespace heed::python
