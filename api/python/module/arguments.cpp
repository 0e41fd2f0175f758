#include "api/python/module/arguments.hpp"

namespace heed::python {
namespace {

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
