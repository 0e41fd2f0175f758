// Contexts in checked mode.
#pragma once

#include "tests/api/printed.hpp"
#include "tests/api/support.hpp"

namespace api_test {

inline Context checked_context(std::uint32_t check) {
  heed_context_options options = serial_options();
  options.check = check;
  return make_context(&options);
}

}  // namespace api_test
