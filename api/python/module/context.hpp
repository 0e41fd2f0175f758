// Contexts: the default one of the process, and those of callers.
#pragma once

#include <list>
#include <string>

#include "api/python/module/errors.hpp"

namespace heed::python {

class Context {
 public:
  explicit Context(const heed_context_options& options) : options_(options) {
    check(heed_context_create(&options, &context_));
    keep(options_.isa), keep(options_.executor_name), keep(options_.product);
    keep(options_.tuning_file);
  }
  ~Context() { heed_context_destroy(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const heed_context* get() const { return context_; }
  /// What was asked for, to be asked of another engine too.
  const heed_context_options& options() const { return options_; }
  heed_context_info info() const;

 private:
  /// A copy of the caller's text.
  void keep(const char*& text) {
    if (text != nullptr) text = texts_.emplace_back(text).c_str();
  }

  heed_context_options options_;
  std::list<std::string> texts_;
  heed_context* context_ = nullptr;
};

/// A context for the time of a call, which keeps it.
struct HeldContext {
  nb::object object;
  const heed_context* context;
  const heed_context_options* options;
};

/// What the argument `context` says: a heed.Context, or None or null for the default one, which is
/// made when it is first needed.
HeldContext hold_context(nb::handle given);

/// "exact", "default", "high" or "medium", of a heed_precision.
const char* name_of_precision(std::uint32_t precision);

}  // namespace heed::python
