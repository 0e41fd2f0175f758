#include "engine/runtime/error.hpp"

#include <cstdarg>
#include <cstdio>

#include "engine/runtime/sizes.hpp"
#include "engine/runtime/text.hpp"

namespace heed {
namespace {

thread_local char latest[sizeof(Error::message)] = "";

}  // namespace

void fail(heed_status status, const char* format, ...) {
  Error error{};
  error.status = status;
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error.message, sizeof error.message, format, arguments);
  va_end(arguments);
  throw error;
}

void check_reserved(const char* field, std::uint32_t value) {
  if (value != 0) fail(HEED_STATUS_INVALID_ARGUMENT, "%s is %u; it must be 0", field, value);
}

void set_last_error(const char* message) noexcept {
  std::snprintf(latest, sizeof latest, "%s", message);
}

const char* last_error() noexcept { return latest; }

void Size::refuse(const char* what, std::initializer_list<Field> fields) {
  Text text;
  for (const Field& field : fields) {
    char item[64];
    std::snprintf(item, sizeof item, "%s is %lld", field.name, static_cast<long long>(field.value));
    text.add_item(item);
  }
  fail(HEED_STATUS_INVALID_ARGUMENT, "%s; %s overflows an address", text.c_str(), what);
}

}  // namespace heed
