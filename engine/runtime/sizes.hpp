// Arithmetic with sizes.
#pragma once

#include <cstdint>

#include "engine/runtime/error.hpp"

namespace heed {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// a * b, both at least 0; throws, naming `what`, where that leaves the range of addresses.
inline std::int64_t product(std::int64_t a, std::int64_t b, const char* what) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || result > (INT64_MAX >> 5))
    fail(HEED_STATUS_INVALID_ARGUMENT, "%s: %lld times %lld overflows", what,
         static_cast<long long>(a), static_cast<long long>(b));
  return result;
}

}  // namespace heed
