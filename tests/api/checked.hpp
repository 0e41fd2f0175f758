// Calls that pass, but for checked mode, which refuses them or remarks on them.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/api/forms.hpp"
#include "tests/api/printed.hpp"

namespace api_test {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

inline Context checked_context(std::uint32_t check) {
  heed_context_options options = serial_options();
  options.check = check;
  return make_context(&options);
}

struct Attempt {
  heed_status status;
  std::string message;  ///< where it was refused
  std::string printed;
};

using Call = std::function<heed_status(const Context&)>;

inline Attempt attempt(std::uint32_t check, const Call& call) {
  const Context context = checked_context(check);
  Captured err(STDERR_FILENO);
  Captured out(STDOUT_FILENO);
  const heed_status status = call(context);
  std::string printed = err.text();
  if (!out.text().empty()) printed += "(on stdout)";
  return {status, status == HEED_STATUS_OK ? "" : heed_last_error(), printed};
}

/// A call that a checked context refuses, or that passes with remarks or without.
struct Trap {
  const char* what;
  Call call;
  heed_status status;
  std::vector<const char*> words;  ///< of the message, or of what is printed
};

/// The one call of a form after this change.
template <class AForm>
Call after(const std::function<void(AForm&)>& change) {
  return [change](const Context& context) {
    AForm form;
    change(form);
    return one_call(context, form);
  };
}

template <class Change>
Trap refused(const char* what, const Change& change, std::vector<const char*> words) {
  return {what, after(std::function(change)), HEED_STATUS_INVALID_ARGUMENT, std::move(words)};
}
template <class Change>
Trap told(const char* what, const Change& change, std::vector<const char*> words) {
  return {what, after(std::function(change)), HEED_STATUS_OK, std::move(words)};
}
template <class Change>
Trap fine(const char* what, const Change& change) {
  return {what, after(std::function(change)), HEED_STATUS_OK, {}};
}

inline void check_traps(const std::vector<Trap>& traps) {
  for (const Trap& trap : traps) {
    CAPTURE(trap.what);
    const Attempt checked = attempt(HEED_CHECK_ON, trap.call);
    CAPTURE(checked.message, checked.printed);
    CHECK(std::string(heed_status_name(checked.status)) == heed_status_name(trap.status));
    const bool told = trap.status == HEED_STATUS_OK;
    const std::string& text = told ? checked.printed : checked.message;
    for (const char* const word : trap.words) {
      CAPTURE(word);
      CHECK(text.find(word) != std::string::npos);
    }
    if (told && trap.words.empty()) CHECK(checked.printed.empty());
    if (!checked.printed.empty()) CHECK(checked.printed.rfind("heed: check: ", 0) == 0);

    const Attempt unchecked = attempt(HEED_CHECK_OFF, trap.call);
    CAPTURE(unchecked.message);
    CHECK(unchecked.status == HEED_STATUS_OK);
    CHECK(unchecked.printed.empty());
  }
}

}  // namespace api_test
