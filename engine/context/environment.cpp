#include "engine/context/environment.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "engine/runtime/error.hpp"

namespace heed {
namespace {

const char* text_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

/// A whole decimal number in [low, high]; `otherwise` if the variable is not set.
std::uint32_t number_of(const char* variable, std::uint32_t low, std::uint32_t high,
                        std::uint32_t otherwise) {
  const char* const value = text_of(variable);
  if (value == nullptr) return otherwise;
  std::uint32_t number = 0;
  const char* const end = value + std::strlen(value);
  const auto [stop, problem] = std::from_chars(value, end, number);
  if (problem != std::errc{} || stop != end || number < low || number > high)
    fail(HEED_STATUS_INVALID_ENVIRONMENT,
         "%s is \"%.40s\"; it must be a whole number from %u to %u", variable, value, low, high);
  return number;
}

Precision precision_of(const char* variable) {
  const char* const value = text_of(variable);
  if (value == nullptr) return Precision::kDefault;
  const std::optional<Precision> precision = precision_named(value);
  if (!precision)
    fail(HEED_STATUS_INVALID_ENVIRONMENT,
         "%s is \"%.40s\"; it must be exact, default, high or medium", variable, value);
  return *precision;
}

}  // namespace

Environment read_environment() {
  return {text_of("HEED_ISA"),
          text_of("HEED_PARALLEL"),
          text_of("HEED_PRODUCT"),
          text_of("HEED_TUNING_FILE"),
          precision_of("HEED_PRECISION"),
          number_of("HEED_THREADS", 1, kMaxThreads, 0),
          number_of("HEED_TILE_Q", 1, kMaxTile, 0),
          number_of("HEED_TILE_KV", 1, kMaxTile, 0),
          number_of("HEED_VERBOSE", 0, 1, 0) == 1,
          number_of("HEED_CHECK", 0, 1, 0) == 1};
}

}  // namespace heed
