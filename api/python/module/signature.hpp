// Functions that are called by their signature in Python: arguments are told apart here, so that
// what does not fit is refused in the package's words.
#pragma once

#include <cstring>
#include <string>
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

 private:
  struct Parameter {
    nb::str name;
    nb::object otherwise;  // what it is unless given; invalid: it must be given
  };

  [[noreturn]] void refuse_unknown(nb::handle name) const;

  friend class Given;

  std::string of_;
  std::string name_;
  std::string called_;  // in messages
  std::vector<Parameter> parameters_;
  std::size_t positional_ = 0;
  bool others_ = false;
};

/// The arguments of a call by the names of its signature.
class Given {
 public:
  /// From args[first] on, defaults where they are not given. TypeError tells what does not fit.
  Given(const Signature& signature, const nb::args& args, std::size_t first,
        const nb::kwargs& kwargs);

  /// Null for None.
  nb::handle operator[](const char* name) const;
  /// In the order of the signature; the last are all others, as a dict, where it ends with **.
  const Signature& signature() const { return signature_; }
  const std::vector<nb::object>& values() const { return values_; }

 private:
  const Signature& signature_;
  std::vector<nb::object> values_;
};

/// Calls called(self, given), or called(self) of what has no arguments.
template <class Function, class... Self>
auto call_with(Function called, const Given& given, Self&&... self) {
  if constexpr (std::is_invocable_v<Function, Self..., const Given&>)
    return called(std::forward<Self>(self)..., given);
  else
    return called(std::forward<Self>(self)...);
}

/// A method. Its signature is never destroyed, as the type that it belongs to.
template <class Class, class Result, class Self, class... Rest>
void method(nb::class_<Class>& type, const char* text, Result (*called)(Self, Rest...),
            const char* doc = "") {
  const auto* signature = new Signature(nb::str(type.attr("__name__")).c_str(), text);
  if constexpr (std::is_pointer_v<Self>)  // of __init__
    type.def(
        signature->name(),
        [signature, called](Self self, const nb::args& args, const nb::kwargs& kwargs) {
          call_with(called, Given(*signature, args, 0, kwargs), self);
        },
        nb::sig(text), doc);
  else
    type.def(
        signature->name(),
        [signature, called](const nb::args& args, const nb::kwargs& kwargs) {
          const nb::handle self = signature->self(args, nb::type<Class>());
          Class* const object = nb::inst_ptr<Class>(self);
          const Given given(*signature, args, 1, kwargs);
          if constexpr (std::is_convertible_v<Class&, Self>)
            return call_with(called, given, *object);
          else
            return call_with(called, given, std::decay_t<Self>{object, self});
        },
        nb::sig(text), doc);
}

/// A function of a module, or a static method.
template <class Scope, class Result, class... Rest>
void function(Scope& scope, const char* text, Result (*called)(Rest...), const char* doc = "") {
  constexpr bool kOfClass = !std::is_same_v<Scope, nb::module_>;
  const std::string of = kOfClass ? nb::str(scope.attr("__name__")).c_str() : "";
  const auto* signature = new Signature(of, text);
  const auto call = [signature, called](const nb::args& args, const nb::kwargs& kwargs) {
    return call_with(called, Given(*signature, args, 0, kwargs));
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
