// Errors in the words of Python's arguments, and names of Python that are looked up once.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "api/heed.h"

namespace heed::python {

// ---- Refusals, in the words of Python's arguments ----

namespace nb = nanobind;

/// A word of a message: text, or a number.
struct Word {
  std::string text;

  Word(const char* given) : text(given) {}
  Word(std::string given) : text(std::move(given)) {}
  Word(const nb::str& given);
  Word(double given);
  template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
  Word(Integer given) : text(std::to_string(given)) {}
};
using Words = std::initializer_list<Word>;

/// Raises an error of heed.errors, or TypeError, with the format's {} replaced by words. An error
/// of Python that is set is its cause.
[[noreturn]] void raise_error(const char* type, const char* format, Words words = {});

/// Raises heed.ArgumentError, a ValueError, with a message that names the argument, its value and
/// the bound.
template <class... Said>
[[noreturn]] void refuse(const char* format, const Said&... words) {
  raise_error("ArgumentError", format, {words...});
}

/// Raises heed.UnsupportedError, a NotImplementedError.
template <class... Said>
[[noreturn]] void refuse_unsupported(const char* format, const Said&... words) {
  raise_error("UnsupportedError", format, {words...});
}

/// Raises TypeError, for what is of a wrong Python type.
template <class... Said>
[[noreturn]] void refuse_type(const char* format, const Said&... words) {
  raise_error("TypeError", format, {words...});
}

/// Raises what stands for the status, unless it is HEED_STATUS_OK, with heed's message.
void check(heed_status status);
/// The same of another engine, which said this.
void check(heed_status status, const char* message);

/// Forgets the error of Python that is set, if it is of `answer`; another one is the caller's own,
/// and is thrown as it is.
void forget(PyObject* answer);

/// Whether what a caller's object raised says that it cannot do what it was asked for. An
/// exception that ends the program, or tells of no memory, does not.
bool is_answer(const nb::python_error& raised);

/// The attribute from.name, or an invalid object where there is none.
nb::object attribute(nb::handle from, nb::handle name);

/// The name of an object's type, for messages.
std::string type_text(nb::handle object);

// Objects that are made when they are first needed, and never destroyed: the interpreter ends
// before this library does.

/// Not a static variable of a function: a thread would wait for its end with the GIL, which the one
/// that makes it may need.
template <class T>
const T& once() {
  static std::atomic<const T*> one = nullptr;
  const T* known = one.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  const T* made = new T;
  if (one.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return *made;
  delete made;  // another thread was faster
  return *known;
}

// ---- Python's names and functions that are needed again and again, looked up once ----

struct Names {
  nb::str exchange_api = nb::str("__dlpack_c_exchange_api__");
  nb::str array_struct = nb::str("__array_struct__");
  nb::str dlpack = nb::str("__dlpack__");
  nb::str dlpack_device = nb::str("__dlpack_device__");
  nb::str dtype = nb::str("dtype");
  nb::str array_namespace = nb::str("__array_namespace__");
  nb::str requires_grad = nb::str("requires_grad");
  nb::str is_neg = nb::str("is_neg");
  nb::object numpy = nb::module_::import_("numpy");
  nb::object asarray = numpy.attr("asarray");
  nb::object empty = numpy.attr("empty");
  nb::object ndarray = numpy.attr("ndarray");
  nb::object float32 = numpy.attr("dtype")("float32");
  nb::object result = nb::module_::import_("heed.results").attr("Result");
  nb::object gradients = nb::module_::import_("heed.results").attr("Gradients");
  nb::object block_gradients = nb::module_::import_("heed.results").attr("MultiheadGradients");
  nb::object graph_gradients = nb::module_::import_("heed.results").attr("GraphGradients");
};

inline const Names& names() { return once<Names>(); }

// ---- Objects that describe themselves ----

/// A dict of names and values in turn.
inline void put_all(nb::dict&) {}
template <class Value, class... Others>
void put_all(nb::dict& dict, const char* name, const Value& value, const Others&... others) {
  dict[name] = value;
  put_all(dict, others...);
}
template <class... NamesAndValues>
nb::dict dict_of(const NamesAndValues&... all) {
  nb::dict dict;
  put_all(dict, all...);
  return dict;
}

// ---- Objects that another process could not use ----

/// Makes pickle, copy and multiprocessing say so, and what to do instead.
template <class T>
void refuse_pickling(nb::class_<T>& type, const char* why) {
  type.def(
      "__reduce_ex__",
      [why](nb::handle self, nb::handle) -> nb::object {
        refuse_type("heed.{} cannot be pickled or copied: {}",
                    nb::str(self.type().attr("__name__")), why);
      },
      nb::arg("protocol"),
      nb::sig("def __reduce_ex__(self, protocol: object, /) -> typing.NoReturn"));
}

}  // namespace heed::python
