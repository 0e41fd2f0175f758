// Functions that are called by their signature in Python: arguments are told apart here, so that
// what does not fit is refused in the package's words.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/python/module/errors.hpp"

namespace heed::python {

/// Raises TypeError for an argument that `function` does not know, perhaps with the name of the one
/// among `known` that was meant.
[[noreturn]] void refuse_keyword(const char* function, nb::handle name, const nb::list& known);

class Signature {
 public:
  /// `text` is a line of a stub: "def append(self, key: object, *, layer: int = 0) -> None"; `of`
  /// the class that it belongs to, or empty.
  Signature(const std::string& of, const char* text);

  const char* name() const { return name_.c_str(); }
  /// As messages call it.
  const char* called() const { return called_.c_str(); }
  /// How many arguments there are, those behind ** being one; and their names, but for that one.
  std::size_t size() const { return parameters_.size() + (others_ ? 1 : 0); }
  std::size_t named() const { return parameters_.size(); }
  const nb::str& parameter(std::size_t i) const { return parameters_[i].name; }

  /// The object that a method is called on, which must be of a type.
  nb::handle self(const nb::args& args, nb::handle type) const;

  /// Arguments in the order of the text, from args[first] on, defaults where they are not given.
  /// The last are all others, as a dict, where the text ends with **.
  void read(const nb::args& args, std::size_t first, const nb::kwargs& kwargs,
            nb::object* values) const;

 private:
  struct Parameter {
    nb::str name;
    nb::object otherwise;  // what it is unless given; invalid: it must be given
  };

  void add(const std::string& text);
  [[noreturn]] void refuse_unknown(nb::handle name) const;

  std::string of_;
  std::string name_;
  std::string called_;  // in messages
  std::vector<Parameter> parameters_;
  std::size_t positional_ = 0;
  bool keywords_only_ = false;  // from here on, while the text is read
  bool others_ = false;
};

/// The arguments of a call by the names of its signature, for functions that take many.
class Given {
 public:
  Given(const Signature& signature, const nb::args& args, std::size_t first,
        const nb::kwargs& kwargs)
      : signature_(signature), values_(signature.size()) {
    signature.read(args, first, kwargs, values_.data());
  }

  /// Null for None.
  nb::handle operator[](const char* name) const;
  const Signature& signature() const { return signature_; }
  const std::vector<nb::object>& values() const { return values_; }

 private:
  const Signature& signature_;
  std::vector<nb::object> values_;
};

template <class Value>
Value argument(const nb::object& value) {
  if constexpr (std::is_same_v<std::decay_t<Value>, nb::handle>)
    return value;
  else
    return nb::borrow<std::decay_t<Value>>(value);
}

/// Calls `call` with the arguments that Python gave.
template <class... Values, class Call>
auto with_arguments(const Signature& signature, const nb::args& args, std::size_t first,
                    const nb::kwargs& kwargs, const Call& call) {
  if constexpr (std::is_same_v<std::tuple<std::decay_t<Values>...>, std::tuple<Given>>) {
    return call(Given(signature, args, first, kwargs));
  } else {
    std::array<nb::object, sizeof...(Values)> values;
    signature.read(args, first, kwargs, values.data());
    return std::apply(
        [&](const auto&... value) { return call(argument<std::decay_t<Values>>(value)...); },
        values);
  }
}

/// A method. Its signature is never destroyed, as the type that it belongs to.
template <class Self, class... Values, class Class, class Function>
void define(nb::class_<Class>& type, const char* text, Function called, const char* doc) {
  const auto* signature = new Signature(nb::str(type.attr("__name__")).c_str(), text);
  const auto call = [signature, called](auto&& self, const nb::args& args, std::size_t first,
                                        const nb::kwargs& kwargs) {
    return with_arguments<Values...>(*signature, args, first, kwargs, [&](auto&&... values) {
      return std::invoke(called, self, std::forward<decltype(values)>(values)...);
    });
  };
  if constexpr (std::is_pointer_v<Self>)  // of __init__
    type.def(
        signature->name(),
        [call](Self self, const nb::args& args, const nb::kwargs& kwargs) {
          call(self, args, 0, kwargs);
        },
        nb::sig(text), doc);
  else
    type.def(
        signature->name(),
        [signature, call](const nb::args& args, const nb::kwargs& kwargs) {
          const nb::handle self = signature->self(args, nb::type<Class>());
          Class* const object = nb::inst_ptr<Class>(self);
          if constexpr (std::is_convertible_v<Class&, Self>)
            return call(*object, args, 1, kwargs);
          else
            return call(std::decay_t<Self>{object, self}, args, 1, kwargs);
        },
        nb::sig(text), doc);
}

template <class Class, class Result, class Self, class... Values>
void method(nb::class_<Class>& type, const char* text, Result (*called)(Self, Values...),
            const char* doc = "") {
  define<Self, Values...>(type, text, called, doc);
}

template <class Class, class Result, class... Values>
void method(nb::class_<Class>& type, const char* text, Result (Class::*called)(Values...) const,
            const char* doc = "") {
  define<const Class&, Values...>(type, text, called, doc);
}

/// A function of a module, or a static method.
template <class Scope, class Result, class... Values>
void function(Scope& scope, const char* text, Result (*called)(Values...), const char* doc = "") {
  constexpr bool kOfClass = !std::is_same_v<Scope, nb::module_>;
  const std::string of = kOfClass ? nb::str(scope.attr("__name__")).c_str() : "";
  const auto* signature = new Signature(of, text);
  const auto call = [signature, called](const nb::args& args, const nb::kwargs& kwargs) {
    return with_arguments<Values...>(*signature, args, 0, kwargs, called);
  };
  if constexpr (kOfClass)
    scope.def_static(signature->name(), call, nb::sig(text), doc);
  else
    scope.def(signature->name(), call, nb::sig(text), doc);
}

template <class>
auto any_or_none() {
  return nb::arg().none();
}

/// A function that the package alone calls, with arguments by position. `text` is its line in the
/// stub.
template <class Result, class... Arguments>
void internal(nb::module_& module, const char* text, Result (*called)(Arguments...)) {
  const char* const name = text + std::strlen("def ");
  module.def(std::string(name, std::strchr(name, '(')).c_str(), called, any_or_none<Arguments>()...,
             nb::sig(text));
}

// ---- What each file adds to the module heed._heed ----

void bind_block(nb::module_& module);
void bind_cache(nb::module_& module);
void bind_context(nb::module_& module);
void bind_dense(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_mpi(nb::module_& module);
void bind_rows(nb::module_& module);
void bind_weights(nb::module_& module);

}  // namespace heed::python
