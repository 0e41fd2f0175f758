// How a refusal travels: thrown as an Error inside the engine, turned into a status and a
// message at the C boundary.
#pragma once

#include <cstdint>

#include "api/heed.h"

namespace heed {

/// A status and its message. The text is stored inside, so that reporting needs no memory.
struct Error {
  heed_status status;
  char message[320];
};

/// Throws an Error with a printf-style message that names the field, its value and the bound.
[[noreturn, gnu::format(printf, 2, 3)]] void fail(heed_status status, const char* format, ...);

/// Throws unless the field `field`, as in "desc.reserved", is 0.
void check_reserved(const char* field, std::uint32_t value);

/// The latest message of this thread, for heed_last_error().
void set_last_error(const char* message) noexcept;
const char* last_error() noexcept;

}  // namespace heed
