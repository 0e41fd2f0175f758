#include "api/python/module/kept.hpp"

namespace heed::python {

KeptOptions::KeptOptions(const Call& call, const Options& options)
    : boolean_mask_(call.attn_mask.form.element == Element::kBool) {
  for (std::size_t i = 0; i < std::size(kOptions); ++i) {
    const nb::handle given = options.*kOptions[i].place;
    given_[i] = given.is_valid();
    if (given.is_valid() && !kOptions[i].tensor) kept_[kOptions[i].name] = given;
  }
  // Of tensors that change from call to call: what they may need at most is settled.
  if (call.packed_queries()) kept_["max_seqlen_q"] = nb::int_(call.desc.query_length);
  if (call.packed_keys() || call.paged()) kept_["max_seqlen_k"] = nb::int_(call.desc.key_length);
  settings_ = read_options("plan", kept_);
}

Options KeptOptions::with(const char* function, const char* maker, nb::handle tensors) const {
  Options options = read_options(function, tensors);
  for (std::size_t i = 0; i < std::size(kOptions); ++i) {
    const OptionName& option = kOptions[i];
    const bool given = (options.*option.place).is_valid();
    if (option.tensor) {
      if (given && !given_[i])
        refuse_type("%s is given, but the plan was made without", option.name);
      if (!given && given_[i]) refuse_type("the plan was made with %s: give it", option.name);
    } else {
      if (given) refuse_type("%s is the plan's: give it to %s", option.name, maker);
      options.*option.place = settings_.*option.place;
    }
  }
  return options;
}

void KeptOptions::check_mask(const Call& call) const {
  const bool boolean = call.attn_mask.form.element == Element::kBool;
  if (boolean != boolean_mask_)
    refuse("attn_mask is %s; the plan was made for one that is %s", boolean ? "bool" : "floating",
           boolean ? "floating" : "bool");
}

void check_form(const char* name, const Form& now, const Form& then) {
  if (now == then) return;
  const std::string is = text(now);
  const std::string was = text(then);
  if (is != was) refuse("%s is %s; the plan was made for %s", name, is.c_str(), was.c_str());
  refuse("%s has strides %s; the plan was made for %s", name,
         shape_text(now.strides, now.axes).c_str(), shape_text(then.strides, then.axes).c_str());
}

}  // namespace heed::python
