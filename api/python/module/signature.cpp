#include "api/python/module/signature.hpp"

#include <algorithm>
#include <string_view>

namespace heed::python {
namespace {

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(' ') + 1 - begin));
}

}  // namespace

void refuse_keyword(const char* function, nb::handle name, const nb::list& known) {
  const nb::object message =
      nb::module_::import_("heed.options").attr("unexpected")(function, name, known);
  refuse_type("{}", nb::str(message));
}

Signature::Signature(const std::string& of, const char* text) : of_(of) {
  const std::string_view whole = text;
  const std::size_t open = whole.find('(');
  name_ = whole.substr(4, open - 4);
  called_ = name_ == "__init__" ? of : of.empty() ? name_ : of + "." + name_;
  int depth = 0;
  std::size_t begin = open + 1;
  for (std::size_t at = begin; depth >= 0; ++at) {
    const char c = whole.at(at);
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (depth > 0 || (c != ',' && depth == 0)) continue;
    add(trimmed(whole.substr(begin, at - begin)));
    begin = at + 1;
  }
}

void Signature::add(const std::string& text) {
  if (text.empty() || text == "self") return;
  if (text == "*") {
    keywords_only_ = true;
    return;
  }
  if (text.rfind("**", 0) == 0) {
    others_ = true;
    return;
  }
  const std::string name = text.substr(0, text.find_first_of(":="));
  const std::size_t otherwise = text.rfind(" = ");
  Parameter parameter = {nb::steal<nb::str>(PyUnicode_InternFromString(trimmed(name).c_str())), {}};
  if (otherwise != std::string::npos)
    parameter.otherwise =
        nb::module_::import_("ast").attr("literal_eval")(text.substr(otherwise + 3).c_str());
  parameters_.push_back(std::move(parameter));
  if (!keywords_only_) positional_ = parameters_.size();
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
