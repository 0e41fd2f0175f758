#include "api/python/module/signature.hpp"

#include <algorithm>

namespace heed::python {

void refuse_keyword(const char* function, nb::handle name, const nb::list& known) {
  const nb::object message =
      nb::module_::import_("heed.options").attr("unexpected")(function, name, known);
  refuse_type("{}", nb::str(message));
}

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

}  // namespace heed::python
