// Contexts: the default one of the process, and those of callers.
#pragma once

#include "api/python/module/errors.hpp"

namespace heed::python {

class Context {
 public:
  explicit Context(const heed_context_options& options) {
    check(heed_context_create(&options, &context_));
  }
  ~Context() { heed_context_destroy(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const heed_context* get() const { return context_; }
  heed_context_info info() const;

 private:
  heed_context* context_ = nullptr;
};

/// A context for the time of a call, which keeps it.
struct HeldContext {
  nb::object object;
  const heed_context* context;
};

/// What the argument `context` says: a heed.Context, or None for the default one, which is made
/// when it is first needed.
HeldContext hold_context(nb::handle given);

/// "exact", "default", "high" or "medium", of a heed_precision.
const char* name_of_precision(std::uint32_t precision);

}  // namespace heed::python
