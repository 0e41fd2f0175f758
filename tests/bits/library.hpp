// The library under comparison. Nothing here is linked to heed: every call of the C API goes to the
// file that was loaded.
#pragma once

#include <string>

namespace heed_test {

/// Before any call of the C API. Throws std::runtime_error if there is no such library; a call of a
/// function that it lacks throws too.
void load_library(const std::string& path);

}  // namespace heed_test
