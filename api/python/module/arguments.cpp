#include "api/python/module/arguments.hpp"

#include <algorithm>

namespace heed::python {
namespace {

/// Raises TypeError for an argument that `function` does not know, perhaps with the name of the one
/// among `known` that was meant.
[[noreturn]] void refuse_keyword(const char* function, nb::handle name, const nb::list& known) {
  const nb::object message =
      nb::module_::import_("heed.options").attr("unexpected")(function, name, known);
  refuse_type("{}", nb::str(message));
}

/// Where each is in the table, by its name.
struct Places {
  nb::dict of;

  Places() {
    for (std::size_t i = 0; i < std::size(kArguments); ++i) of[kArguments[i].name] = i;
  }
};

const Argument* argument_named(nb::handle key) {
  PyObject* const place = PyDict_GetItemWithError(once<Places>().of.ptr(), key.ptr());
  if (place != nullptr) return &kArguments[nb::cast<std::size_t>(nb::handle(place))];
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return nullptr;
}

}  // namespace

// ---- Functions that are called by their signature ----

Signature::Signature(const std::string& of, const char* text) : of_(of) {
  const nb::module_ ast = nb::module_::import_("ast");
  const nb::object line = ast.attr("parse")((std::string(text) + ": ...").c_str()).attr("body")[0];
  name_ = nb::str(line.attr("name")).c_str();
  called_ = name_ == "__init__" ? of : of.empty() ? name_ : of + "." + name_;
  const auto add = [&](const nb::list& arguments, const nb::list& defaults) {
    const std::size_t without = arguments.size() - defaults.size();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      Parameter parameter = {nb::str(arguments[i].attr("arg")), {}};
      if (parameter.name.equal(nb::str("self"))) continue;
      const nb::object otherwise = i < without ? nb::none() : nb::object(defaults[i - without]);
      if (!otherwise.is_none()) parameter.otherwise = ast.attr("literal_eval")(otherwise);
      parameters_.push_back(std::move(parameter));
    }
  };
  const nb::object arguments = line.attr("args");
  add(nb::list(arguments.attr("args")), nb::list(arguments.attr("defaults")));
  positional_ = parameters_.size();
  add(nb::list(arguments.attr("kwonlyargs")), nb::list(arguments.attr("kw_defaults")));
  others_ = !arguments.attr("kwarg").is_none();
}

nb::handle Signature::self(const nb::args& args, nb::handle type) const {
  const nb::handle self = args.empty() ? Py_None : PyTuple_GetItem(args.ptr(), 0);
  if (!nb::isinstance(self, type) || !nb::inst_ready(self))
    refuse_type("{}() must be called on a heed.{}, not on {}", called_, of_,
                args.empty() ? "nothing" : type_text(self));
  return self;
}

Given::Given(const Signature& signature, const nb::args& args, std::size_t first,
             const nb::kwargs& kwargs)
    : signature_(signature), values_(signature.size()) {
  const char* const called = signature.called();
  const std::vector<Signature::Parameter>& parameters = signature.parameters_;
  const std::size_t given = args.size() - first;
  if (given > signature.positional_)
    refuse_type("{}() takes {} positional argument{}, but {} were given", called,
                signature.positional_, signature.positional_ == 1 ? "" : "s", given);
  for (std::size_t i = 0; i < given; ++i) values_[i] = args[first + i];
  nb::dict others;
  for (const auto& [key, value] : kwargs) {
    const auto is_named = [&key = key](const Signature::Parameter& p) {
      return p.name.is(key) || PyUnicode_Compare(p.name.ptr(), key.ptr()) == 0;
    };
    const auto found = std::find_if(parameters.begin(), parameters.end(), is_named);
    if (found == parameters.end()) {
      if (!signature.others_) signature.refuse_unknown(key);
      others[key] = value;
      continue;
    }
    nb::object& place = values_[static_cast<std::size_t>(found - parameters.begin())];
    if (place.is_valid())
      refuse_type("{}() got {} twice: by position and by name", called, found->name);
    place = nb::borrow(value);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (values_[i].is_valid()) continue;
    if (!parameters[i].otherwise.is_valid())
      refuse_type("{}() needs {}", called, parameters[i].name);
    values_[i] = parameters[i].otherwise;
  }
  if (signature.others_) values_.back() = std::move(others);
}

nb::handle Given::operator[](const char* name) const {
  for (std::size_t i = 0; i < signature_.named(); ++i)
    if (PyUnicode_CompareWithASCIIString(signature_.parameter(i).ptr(), name) == 0)
      return values_[i].is_none() ? nb::handle() : nb::handle(values_[i]);
  return {};
}

void Signature::refuse_unknown(nb::handle name) const {
  nb::list known;
  for (const Parameter& parameter : parameters_) known.append(parameter.name);
  refuse_keyword(called_.c_str(), name, known);
}

// ---- The arguments of everything that attends ----

Arguments read_arguments(const char* function, nb::handle given, unsigned operation,
                         unsigned uses) {
  const auto is_known = [&](const Argument& argument) {
    return (argument.uses & operation) != 0 && (argument.uses & uses) != 0;
  };
  Arguments arguments;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(given.ptr(), &at, &key, &value) != 0;) {
    const Argument* argument = argument_named(key);
    if (argument == nullptr || !is_known(*argument)) {
      nb::list known;
      for (const Argument& one : kArguments)
        if (is_known(one)) known.append(one.name);
      refuse_keyword(function, key, known);
    }
    arguments.*argument->place = unless_none(value);
  }
  return arguments;
}

Arguments read_arguments(const Given& given, unsigned operation) {
  const Signature& signature = given.signature();
  Arguments arguments;
  if (signature.size() > signature.named())
    arguments = read_arguments(signature.called(), given.values().back(), operation, kOptions);
  for (std::size_t i = 0; i < signature.named(); ++i)
    if (const Argument* argument = argument_named(signature.parameter(i)))
      arguments.*argument->place = unless_none(given.values()[i]);
  return arguments;
}

KeptArguments::KeptArguments(const char* maker, const Arguments& made)
    : maker_(maker), out_given_(made.out.is_valid()) {
  for (std::size_t i = 0; i < std::size(kArguments); ++i) {
    const Argument& argument = kArguments[i];
    const nb::handle given = made.*argument.place;
    given_[i] = given.is_valid();
    if (!given.is_valid() || (argument.uses & (kSetting | kAsked)) == 0) continue;
    settings_.*argument.place = given;
    held_.push_back(nb::borrow(given));
  }
}

void KeptArguments::settle(nb::handle Arguments::*setting, std::int64_t value) {
  held_.push_back(nb::int_(value));
  settings_.*setting = held_.back();
}

Arguments KeptArguments::with(const Arguments& now) const {
  Arguments all = now;
  for (std::size_t i = 0; i < std::size(kArguments); ++i) {
    const Argument& argument = kArguments[i];
    const bool given = (now.*argument.place).is_valid();
    if ((argument.uses & kTensor) != 0) {
      if (given && !given_[i])
        refuse_type("{} is given, but the plan was made without", argument.name);
      if (!given && given_[i]) refuse_type("the plan was made with {}: give it", argument.name);
    } else if ((argument.uses & (kSetting | kAsked)) != 0) {
      if (given) refuse_type("{} is the plan's: give it to {}", argument.name, maker_);
      all.*argument.place = settings_.*argument.place;
    }
  }
  if (out_given_ && !now.out.is_valid()) refuse_type("the plan was made with out: give it");
  return all;
}

}  // namespace heed::python
