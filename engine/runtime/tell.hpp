// The one place that prints, for those who ask for it with HEED_VERBOSE or checked mode.
#pragma once

namespace heed {

/// Prints "heed: ", the message and a newline to stderr, at once.
[[gnu::format(printf, 1, 2)]] void tell(const char* format, ...) noexcept;

}  // namespace heed
