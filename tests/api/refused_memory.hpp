// Calls that get no memory, at any of their requests.
#pragma once

#include "tests/api/support.hpp"

namespace api_test {

/// A serial context that gets its memory there.
inline heed_context_options serial_options(const heed_allocator& allocator) {
  heed_context_options options = HEED_CONTEXT_OPTIONS_INIT;
  options.executor_name = "serial";
  options.allocator = &allocator;
  return options;
}

/// Calls create(&object); destroys what it made, or checks that it has written nothing.
template <class Object, class Create>
heed_status make_and_destroy(Create create, void (*destroy)(Object*)) {
  Object* object = untouched<Object>();
  const heed_status status = create(&object);
  if (status == HEED_STATUS_OK) {
    destroy(object);
  } else {
    CHECK(object == untouched<Object>());
  }
  return status;
}

/// Refuses the first request, then the second ... until the call succeeds. `call` returns the
/// status, having given back what it made; nothing may stay behind.
template <class Call>
void refuse_each_request(CountingAllocator& memory, Call call) {
  const std::size_t live = memory.live();
  std::size_t refused = 0;
  for (;; ++refused) {
    REQUIRE(refused < 100);
    CAPTURE(refused);
    memory.restart(refused);
    forget_last_error();
    const heed_status status = call();
    CHECK(memory.live() == live);
    CHECK(memory.sound());
    if (status == HEED_STATUS_OK) break;
    check_refusal(status, HEED_STATUS_OUT_OF_MEMORY, {"allocator returned NULL", "bytes"});
  }
  memory.restart();
  CHECK(refused > 0);  // it does ask for memory
}

}  // namespace api_test
