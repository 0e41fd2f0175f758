// What one rank alone gets wrong, all ranks refuse, in the same words.
#pragma once

#include <functional>
#include <string>

#include "tests/mpi/ranks.hpp"

namespace heed_test {

/// Whether nobody has written an element.
bool untouched(const Tensor& tensor);

/// What one rank makes of a good call, and what all say of it.
template <class Call>
struct Refusal {
  const char* name;
  void (*change)(Call&);
  heed_status status;
  std::string words;
};

/// The last rank changes its call, which all make. A Call has run() and untouched().
template <class Call>
void check_refusal(const Refusal<Call>& refusal) {
  INFO(refusal.name);
  Call call;
  if (rank() == ranks() - 1) refusal.change(call);
  const heed_status status = call.run();
  const std::string message = heed_mpi_last_error();
  CHECK(heed_status_name(status) == std::string(heed_status_name(refusal.status)));
  CHECK(message == "rank " + std::to_string(ranks() - 1) + ": " + refusal.words);
  CHECK(same_everywhere(message));
  CHECK(call.untouched());
}

/// A call with a context.
using Attempt = std::function<heed_status(const heed_context*)>;

/// All refuse it where the last rank runs out of memory, whenever that is.
void check_out_of_memory(const Attempt& call);
/// The last rank's executor runs nothing once in the midst of a run.
void check_failing_executor(const Attempt& call);

}  // namespace heed_test
