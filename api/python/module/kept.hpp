// What a plan keeps of the call that it was made with.
#pragma once

#include <iterator>

#include "api/python/module/call.hpp"

namespace heed::python {

/// The settings among attention's options, and which tensors among them calls must give.
class KeptOptions {
 public:
  KeptOptions(const Call& call, const Options& options);

  /// The settings, and the tensors of a call of `function`; `maker` made the plan.
  Options with(const char* function, const char* maker, nb::handle tensors) const;

  /// Refuses a floating attn_mask where the plan was made for a boolean one, and the reverse.
  void check_mask(const Call& call) const;

 private:
  bool given_[std::size(kOptions)] = {};
  bool boolean_mask_;
  nb::dict kept_;
  Options settings_;
};

/// Refuses an array of another shape, type or strides than the plan was made for.
void check_form(const char* name, const Form& now, const Form& then);

}  // namespace heed::python
