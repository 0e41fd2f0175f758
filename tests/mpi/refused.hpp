// What one rank alone gets wrong, all ranks refuse, in the same words.
#pragma once

#include <functional>
#include <string>

#include "tests/mpi/ranks.hpp"

namespace heed_test {

/// Whether nobody has written an element.
bool untouched(const Tensor& tensor);

constexpr heed_status kInvalid = HEED_STATUS_INVALID_ARGUMENT;
constexpr heed_status kUnsupported = HEED_STATUS_UNSUPPORTED;

/// What one rank makes of a good call, and what all say of it.
template <class Call>
struct Refusal {
  void (*change)(Call&);
  std::string words;
  heed_status status = kInvalid;
};

/// Of a field that must be the same on all ranks.
inline std::string differs(const std::string& field, const std::string& own,
                           const std::string& first) {
  return field + " is " + own + "; on rank 0 it is " + first + ", and must be the same";
}

/// What all ranks say of a call that they are refused. A Call has run() and untouched().
template <class Call>
std::string refusal_of(Call& call, heed_status as = kInvalid) {
  const heed_status status = call.run();
  const std::string message = heed_mpi_last_error();
  CHECK(heed_status_name(status) == std::string(heed_status_name(as)));
  CHECK(same_everywhere(message));
  CHECK(call.untouched());
  return message;
}

/// The last rank changes its call, which all make.
template <class Call>
void check_refused(const std::vector<Refusal<Call>>& refusals) {
  for (const Refusal<Call>& refusal : refusals) {
    INFO(refusal.words);
    Call call;
    if (rank() == ranks() - 1) refusal.change(call);
    CHECK(refusal_of(call, refusal.status) ==
          "rank " + std::to_string(ranks() - 1) + ": " + refusal.words);
  }
}

/// A call with a context.
using Attempt = std::function<heed_status(const heed_context*)>;

/// All refuse it where the last rank runs out of memory, whenever that is.
void check_out_of_memory(const Attempt& call);
/// The last rank's executor runs nothing once in the midst of a run.
void check_failing_executor(const Attempt& call);

}  // namespace heed_test
