// The arguments of functions and methods: by their signature in Python, so that what does not fit
// is refused in the package's words; and of everything that attends, by their names: one table.
#pragma once

#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/python/module/errors.hpp"

namespace heed::python {

// ---- Functions that are called by their signature ----

class Signature {
 public:
  /// `text` is a line of a stub: "def append(self, key: object, *, layer: int = 0) -> None"; `of`
  /// the class that it belongs to, or empty.
  Signature(const std::string& of, const char* text);

  const char* name() const { return name_.c_str(); }
  /// As messages call it.
  const char* called() const { return called_.c_str(); }
  /// How many arguments there are, where ** counts as one; and the names of the others.
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

// ---- Each file adds its functions and classes to the module heed._heed ----

void bind_block(nb::module_& module);
void bind_cache(nb::module_& module);
void bind_context(nb::module_& module);
void bind_dense(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_mpi(nb::module_& module);
void bind_rows(nb::module_& module);
void bind_weights(nb::module_& module);

// ---- The arguments of everything that attends ----

/// Which operations take an argument by its name, and what it is.
enum Use : unsigned {
  kOfAttention = 1,
  kOfBlocks = 2,
  kOfGraphs = 4,
  kOfAny = kOfAttention | kOfBlocks | kOfGraphs,
  kOfRanks = 8,  // of attention over ranks alone

  kTensor = 16,   // given anew in every call of a plan
  kSetting = 32,  // kept by plans, as parameters of a model are
  kAsked = 64,    // the same, of results beside out
  kOut = 128,
  kWhere = 256,     // the context
  kGradient = 512,  // of gradients alone
  kKeep = 1024,     // for them
  kAlone = 2048,    // not supported over ranks
};
constexpr unsigned kOptions = kTensor | kSetting | kAsked;
constexpr unsigned kForward = kOptions | kOut | kWhere;
constexpr unsigned kBackward = kOptions | kWhere | kGradient;

#define HEED_ATTENDS (kOfAttention | kOfBlocks)
#define HEED_PROJECTS (kOfBlocks | kOfGraphs)
/// DIFFERENTIABLE arguments have gradients, called grad_ and their name, in the same operations.
#define HEED_ARGUMENTS(ARGUMENT, DIFFERENTIABLE)               \
  DIFFERENTIABLE(query, kOfAny | kTensor)                      \
  DIFFERENTIABLE(key, kOfAny | kTensor)                        \
  DIFFERENTIABLE(value, (kOfAttention | kOfGraphs) | kTensor)  \
  DIFFERENTIABLE(out, kOfAny | kOut)                           \
  ARGUMENT(context, kOfAny | kWhere)                           \
  ARGUMENT(attn_mask, HEED_ATTENDS | kTensor)                  \
  DIFFERENTIABLE(bias, HEED_ATTENDS | kTensor)                 \
  ARGUMENT(causal, HEED_ATTENDS | kSetting)                    \
  ARGUMENT(window, HEED_ATTENDS | kSetting)                    \
  ARGUMENT(alignment, HEED_ATTENDS | kSetting)                 \
  ARGUMENT(scale, kOfAny | kSetting)                           \
  ARGUMENT(softcap, kOfAny | kSetting)                         \
  DIFFERENTIABLE(alibi_slopes, HEED_ATTENDS | kTensor)         \
  DIFFERENTIABLE(sinks, HEED_ATTENDS | kTensor)                \
  ARGUMENT(temperature, kOfAny | kSetting)                     \
  ARGUMENT(hard, kOfAny | kSetting | kAlone)                   \
  ARGUMENT(dropout, kOfAny | kSetting)                         \
  ARGUMENT(seed, kOfAny | kTensor)                             \
  ARGUMENT(dropout_origin, HEED_ATTENDS | kTensor | kAlone)    \
  ARGUMENT(dropout_edges, kOfGraphs | kTensor)                 \
  ARGUMENT(key_lengths, HEED_ATTENDS | kTensor)                \
  ARGUMENT(first_keys, HEED_ATTENDS | kTensor | kAlone)        \
  ARGUMENT(cu_seqlens_q, HEED_ATTENDS | kTensor)               \
  ARGUMENT(cu_seqlens_k, HEED_ATTENDS | kTensor)               \
  ARGUMENT(max_seqlen_q, HEED_ATTENDS | kSetting | kAlone)     \
  ARGUMENT(max_seqlen_k, HEED_ATTENDS | kSetting | kAlone)     \
  ARGUMENT(block_table, HEED_ATTENDS | kTensor | kAlone)       \
  ARGUMENT(key_scales, HEED_ATTENDS | kTensor | kAlone)        \
  ARGUMENT(value_scales, HEED_ATTENDS | kTensor | kAlone)      \
  ARGUMENT(score_function, HEED_ATTENDS | kSetting | kAlone)   \
  ARGUMENT(return_lse, kOfAny | kAsked)                        \
  ARGUMENT(return_weights, kOfAny | kAsked | kAlone)           \
  ARGUMENT(weight_rows, HEED_ATTENDS | kAsked)                 \
  ARGUMENT(return_column_sums, HEED_ATTENDS | kAsked | kAlone) \
  ARGUMENT(keep, kOfBlocks | kKeep)                            \
  ARGUMENT(head_ranks, kOfRanks | kSetting)                    \
  ARGUMENT(flops_per_byte, kOfRanks | kSetting)                \
                                                               \
  DIFFERENTIABLE(w_query, HEED_PROJECTS | kSetting)            \
  DIFFERENTIABLE(w_key, HEED_PROJECTS | kSetting)              \
  DIFFERENTIABLE(w_value, HEED_PROJECTS | kSetting)            \
  DIFFERENTIABLE(w_out, kOfBlocks | kSetting)                  \
  DIFFERENTIABLE(w_edge_key, kOfGraphs | kSetting)             \
  DIFFERENTIABLE(w_edge_value, kOfGraphs | kSetting)           \
  DIFFERENTIABLE(b_query, HEED_PROJECTS | kSetting)            \
  DIFFERENTIABLE(b_key, HEED_PROJECTS | kSetting)              \
  DIFFERENTIABLE(b_value, HEED_PROJECTS | kSetting)            \
  DIFFERENTIABLE(b_out, kOfBlocks | kSetting)                  \
  ARGUMENT(heads, HEED_PROJECTS | kSetting)                    \
  ARGUMENT(key_heads, kOfBlocks | kSetting)                    \
  ARGUMENT(combine, HEED_PROJECTS | kSetting)                  \
  DIFFERENTIABLE(head_weights, HEED_PROJECTS | kSetting)       \
  DIFFERENTIABLE(edge_data, kOfGraphs | kTensor)               \
  DIFFERENTIABLE(edge_bias, kOfGraphs | kTensor)               \
  ARGUMENT(score, kOfAny | kSetting)                           \
  ARGUMENT(activation, kOfAny | kSetting)                      \
  ARGUMENT(slope, kOfAny | kSetting)                           \
  DIFFERENTIABLE(score_weights, kOfAny | kSetting)             \
  ARGUMENT(residual, kOfGraphs | kSetting)                     \
  ARGUMENT(steps, kOfGraphs | kSetting)                        \
                                                               \
  ARGUMENT(graph, kOfGraphs | kSetting)                        \
  DIFFERENTIABLE(data, kOfGraphs | kTensor)                    \
                                                               \
  ARGUMENT(lse, kOfAttention | kGradient)                      \
  ARGUMENT(grad_lse, kOfAny | kGradient)                       \
  ARGUMENT(grad_scale, HEED_ATTENDS | kGradient)               \
  ARGUMENT(grad_temperature, HEED_ATTENDS | kGradient)         \
  ARGUMENT(accumulate, kOfAny | kGradient)                     \
  ARGUMENT(score_gradient, HEED_ATTENDS | kGradient)

/// As they came, the caller holding them; null where one was not given, or None.
struct Arguments {
#define HEED_MEMBER(name, uses) nb::handle name;
#define HEED_MEMBERS(name, uses) HEED_MEMBER(name, uses) HEED_MEMBER(grad_##name, uses)
  HEED_ARGUMENTS(HEED_MEMBER, HEED_MEMBERS)
#undef HEED_MEMBERS
#undef HEED_MEMBER
};

struct Argument {
  const char* name;
  nb::handle Arguments::*place;
  unsigned uses;
};

constexpr Argument kArguments[] = {
#define HEED_ROW(name, uses) {#name, &Arguments::name, uses},
#define HEED_ROWS(name, uses) \
  HEED_ROW(name, uses) HEED_ROW(grad_##name, ((uses)&kOfAny) | kGradient)
    HEED_ARGUMENTS(HEED_ROW, HEED_ROWS)
#undef HEED_ROWS
#undef HEED_ROW
};

inline nb::handle unless_none(nb::handle given) { return given.is_none() ? nb::handle() : given; }

/// Reads the dict `given`; TypeError names what `function` does not know: arguments that are not of
/// its operation, or not of these uses.
Arguments read_arguments(const char* function, nb::handle given, unsigned operation, unsigned uses);

/// The same of a method; what it has by name, and the options behind **, which are of these.
Arguments read_arguments(const Given& given, unsigned operation);

// ---- Operands: where a tensor stands in Python's arguments and in the structs of C ----

/// A tensor and its gradient. Offsets are of a descriptor and of arguments, forward and backward;
/// 0, where every struct has its size, stands for no such member.
struct Operand {
  const char* name;
  nb::handle Arguments::*given;
  std::size_t layout, data;
  const char* gradient;
  nb::handle Arguments::*wanted;
  std::size_t grad_layout, grad_data;
};

/// Api names the structs, `field` their members, and `name` the argument in Python.
#define HEED_OPERAND(Api, name, field)                                                     \
  {                                                                                        \
#name, &Arguments::name, offsetof(Api::Desc, field), offsetof(Api::Args, field),       \
        "grad_" #name, &Arguments::grad_##name, offsetof(Api::BackwardDesc, grad_##field), \
        offsetof(Api::BackwardArgs, grad_##field)                                          \
  }
/// Numbers side by side, which have pointers and no layouts; and a gradient without its tensor.
#define HEED_VECTOR(Api, name)                                                                     \
  {                                                                                                \
#name, &Arguments::name, 0, offsetof(Api::Args, name), "grad_" #name, &Arguments::grad_##name, \
        0, offsetof(Api::BackwardArgs, grad_##name)                                                \
  }
#define HEED_GRADIENT(Api, name)                                              \
  {                                                                           \
#name, &Arguments::name, 0, 0, "grad_" #name, &Arguments::grad_##name, 0, \
        offsetof(Api::BackwardArgs, grad_##name)                              \
  }

/// Writes the member that lies so many bytes after the beginning of a struct.
template <class Member>
void set_member(void* of, std::size_t offset, const Member& value) {
  std::memcpy(static_cast<char*>(of) + offset, &value, sizeof value);
}

// ---- Plans ----

/// A plan keeps these of the arguments that it was made with: settings, and which tensors calls
/// must give.
class KeptArguments {
 public:
  /// `maker` made the plan.
  KeptArguments(const char* maker, const Arguments& made);

  /// A setting that was not given, but is known now.
  void settle(nb::handle Arguments::*setting, std::int64_t value);

  /// The settings, and what a call gives anew: exactly the tensors that the plan was made with.
  Arguments with(const Arguments& now) const;

  bool has_out() const { return out_given_; }

 private:
  const char* maker_;
  bool out_given_;
  bool given_[std::size(kArguments)] = {};
  Arguments settings_;
  std::vector<nb::object> held_;
};

}  // namespace heed::python
