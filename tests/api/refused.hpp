// Tables of refusals. Each row changes a valid problem and has the message that names the field,
// its value and the bound; nothing is written then.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/api/forms.hpp"

namespace api_test {

/// Changes that no text describes, by the names that rows call them.
using Changes = std::map<std::string, std::function<void(Form&)>>;

/// What is changed in a valid problem, and what comes of it.
struct Refusal {
  std::string change;
  heed_status status;   ///< or that it is accepted
  std::string message;  ///< in full, except that " ... " may be anything
};

/// Calls function(make, row) for all of a table, rows of text, each "CHANGES => MESSAGE": fields
/// that are changed and what they are changed to, or names of changes of the operation or of the
/// test. "a | b = 1 | 2" stands for a row of each. A message that begins with "must", "with",
/// "and", ";" or "," goes on after "FIELD is VALUE", of the last field; one that is "ok" says that
/// the call is accepted, or "ok, nothing to do".
/// "(unsupported)" and the like before it is the status. A row goes on in lines that are indented
/// further. Lines "with CHANGES:" say what the rows that follow change, "with CHANGES | as it is:"
/// of one problem and of another.
void each_row(const Operation& of, const std::string& table,
              const std::function<void(const std::string& make, const Refusal& row)>& function);

/// Changes a form as rows do.
void change(Form& form, const std::string& changes, const Changes& more = {});

/// Hands the form in, in both ways that there are, to functions that refuse it: a plan, or where
/// `runs` the run of one, and the one call. All memory comes back.
void hand_in(Form& form, bool runs, const std::function<void(heed_status)>& check);

void check_accepted(const char* of, const std::string& changes = "", const Changes& more = {});

/// Every row of a table changes a problem that is accepted.
void check_refused(const char* of, const std::string& table, const Changes& more = {});

}  // namespace api_test
